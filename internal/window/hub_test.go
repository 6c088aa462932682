package window

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// idle says whether nobody follows a hub, and it has no goroutine.
func (h *hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := h.mu.ended == nil
	if !ended {
		select {
		case <-h.mu.ended:
			ended = true
		default:
		}
	}
	return ended && h.mu.stop == nil && len(h.mu.followers) == 0 && h.mu.newest == nil
}

// All streams share the looks, and without streams there is none, nor a goroutine.
func TestHub_Shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.run("sites", shop("a", ""))
		w, _ := opened(t, source)
		pass(time.Minute)
		require.Zero(t, source.looks.Load(), "nobody looks")
		require.True(t, w.hubs["sites"].idle())

		var all []*visitor
		for range 10 {
			all = append(all, visit(t, w, overviewPath))
		}
		pass(10*time.Second + 100*time.Millisecond)
		require.EqualValues(t, 11, source.looks.Load(), "one a second, for all of them")
		late := visit(t, w, overviewPath)
		synctest.Wait()
		require.Equal(t, []string{"begin", "figures", "parents"}, names(late.events()), "the newest look is there already")
		require.EqualValues(t, 11, source.looks.Load())
		for _, v := range all {
			require.Len(t, v.named("parents"), 1)
			v.leave()
		}
		pass(2 * time.Second)
		require.EqualValues(t, 13, source.looks.Load(), "one is left")
		late.leave()
		require.True(t, w.hubs["sites"].idle())
		require.True(t, w.hubs["shops"].idle())
		pass(time.Minute)
		require.EqualValues(t, 13, source.looks.Load(), "nobody looks any more")

		again := visit(t, w, overviewPath)
		synctest.Wait()
		require.EqualValues(t, 14, source.looks.Load())
		require.Equal(t, []string{"begin", "figures", "parents"}, names(again.events()))
	})
}

// Whoever comes when the last one has just left has a goroutine of their own, and never are there two looks at
// once.
func TestHub_ComingAndGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		turn := make(chan struct{}, 1)
		source.on("overview", func() {
			select {
			case turn <- struct{}{}:
			default:
				t.Error("two looks at once")
			}
			<-time.After(300 * time.Millisecond)
			<-turn
		})
		w, _ := opened(t, source)
		for i := range 20 {
			v := visit(t, w, overviewPath)
			pass(time.Duration(i) * 70 * time.Millisecond)
			go v.leave() // ends with the stream
			synctest.Wait()
		}
		pass(time.Second)
		require.True(t, w.hubs["sites"].idle())
	})
}

// A client that takes nothing for a while is told of what is so by then, and of nothing between. One that takes
// nothing for long is dropped. Others don't notice.
func TestHub_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.run("sites", shop("a", "0"))
		w, _ := opened(t, source)
		slow, quick := visit(t, w, overviewPath), visit(t, w, overviewPath)
		pass(1500 * time.Millisecond)
		slow.events()
		quick.events()
		change := func(n int) {
			for i := range n {
				source.run("sites", shop("a", fmt.Sprint(i+1)))
				pass(time.Second)
			}
		}
		slow.stick(true)
		change(6)
		require.Len(t, quick.named("parents"), 6)
		require.False(t, slow.hasEnded())
		slow.stick(false)
		pass(time.Second)
		require.LessOrEqual(t, len(slow.named("parents")), 2, "what was being written, and the newest")

		slow.stick(true)
		change(9)
		require.False(t, slow.hasEnded())
		change(4)
		require.True(t, slow.hasEnded(), "it was dropped after ten seconds")
		require.Len(t, quick.named("parents"), 13)
		require.False(t, quick.hasEnded())
	})
}

// A panic of the source ends the streams that look, which is logged once. Later ones are served.
func TestHub_Panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		w, log := opened(t, source)
		one, other := visit(t, w, overviewPath), visit(t, w, overviewPath)
		pass(1500 * time.Millisecond)
		source.on("overview", func() { panic("hidden treasure") })
		pass(time.Second)
		require.True(t, one.hasEnded())
		require.True(t, other.hasEnded())
		require.Contains(t, log.String(), "hidden treasure")
		require.NotContains(t, one.text()+other.text(), "hidden")
		require.True(t, w.hubs["sites"].idle())
		looks := source.looks.Load()
		pass(time.Minute)
		require.Equal(t, looks, source.looks.Load())

		source.on("overview", nil)
		again := visit(t, w, overviewPath)
		pass(time.Second)
		require.False(t, again.hasEnded())
		require.Equal(t, begins(true), again.events()[0])
	})
}

// Close ends streams at once, even one that takes nothing, and one that comes later is refused.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		w, _ := opened(t, source)
		stuck, free := visit(t, w, overviewPath), visit(t, w, "/window/parent?name=a&namespace=shop")
		pass(100 * time.Millisecond)
		stuck.stick(true)
		pass(2 * time.Second)
		before := time.Now()
		w.Close()
		require.Equal(t, before, time.Now(), "nobody waits for the client")
		synctest.Wait()
		require.True(t, stuck.hasEnded())
		require.True(t, free.hasEnded())
		require.True(t, w.hubs["sites"].idle())
		late := visit(t, w, overviewPath)
		<-late.ended
		require.Equal(t, 503, late.status())
		require.Equal(t, "5", late.header.Get("Retry-After"))
		w.Close()
	})
}
