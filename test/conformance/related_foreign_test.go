package conformance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/roperator/roperator/testkit"
)

// foreignSecrets returns how many Secrets C94 makes that nobody refers to: few enough for
// every run of the tests, or as many as CONFORMANCE_SECRETS says. test/related measures what
// 20,000 cost in memory.
func foreignSecrets(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CONFORMANCE_SECRETS")
	if text == "" {
		return 2000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// A crowd is the Secrets in a namespace that nobody refers to.
type crowd struct {
	t         *testing.T
	typed     *kubernetes.Clientset
	namespace string
}

// each does something for some of them, several at a time.
func (c crowd) each(count int, do func(ctx context.Context, name string) error) {
	c.t.Helper()
	errs := make([]error, count)
	workqueue.ParallelizeUntil(c.t.Context(), 8, count, func(i int) { errs[i] = do(c.t.Context(), fmt.Sprint("foreign-", i)) })
	for _, err := range errs {
		require.NoError(c.t, err)
	}
}

func (c crowd) create(count int) {
	c.t.Helper()
	c.each(count, func(ctx context.Context, name string) error {
		_, err := c.typed.CoreV1().Secrets(c.namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"text": []byte(strings.Repeat("x", 4<<10))},
		}, metav1.CreateOptions{})
		return err
	})
}

// churn changes some, and deletes and creates others.
func (c crowd) churn() {
	c.t.Helper()
	secrets := c.typed.CoreV1().Secrets(c.namespace)
	c.each(200, func(ctx context.Context, name string) error {
		_, err := secrets.Patch(ctx, name, types.MergePatchType, []byte(`{"stringData":{"text":"changed"}}`), metav1.PatchOptions{})
		return err
	})
	c.each(50, func(ctx context.Context, name string) error { return secrets.Delete(ctx, name, metav1.DeleteOptions{}) })
	c.create(50)
}

func TestC94_ForeignSecrets(t *testing.T) {
	scenario(t, "C94", "among very many Secrets that nobody refers to: up to 64 names no list and no watch goes without a name, beyond that there is one watch, and what nobody refers to is neither held nor wakes anybody")
	log := needsAudit(t)
	m, w := &mirror{}, newWitness()
	cfg := relating("c94", secretsByName())
	kit := testkit.NewWithOptions(t, cluster, cfg, m.handler(), w.options())
	typed, _ := clients(t, "somebody")
	foreign := crowd{t, typed, kit.Namespace}
	foreign.create(foreignSecrets(t))
	own := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			kit.Create(secretWith(fmt.Sprint("s", i), fmt.Sprint(i)))
			kit.Create(naming(fmt.Sprint("p", i), fmt.Sprint("s", i)))
		}
		for i := range to {
			saying(kit, fmt.Sprint("p", i), fmt.Sprintf("secret/s%d=%d", i, i))
		}
		settle(t, kit)
	}
	// undisturbed requires that the others' changes cost no call of the handler, no request
	// and no memory.
	undisturbed := func(objects, watches int) {
		t.Helper()
		holds := func() bool {
			text := w.metrics()
			return strings.Contains(text, fmt.Sprintf("roperator_related_objects{controller=\"c94\",type=\"v1/Secret\"} %d\n", objects)) &&
				strings.Contains(text, fmt.Sprintf("roperator_related_watches{controller=\"c94\",type=\"v1/Secret\"} %d\n", watches))
		}
		eventually(t, fmt.Sprintf("%d objects are held by %d watches", objects, watches), holds)
		calls, from := m.total(), log.mark(t)
		foreign.churn()
		kit.Update(secretWith("s7", "after"))
		saying(kit, "p7", "secret/s7=after")
		kit.Update(secretWith("s7", "7"))
		saying(kit, "p7", "secret/s7=7")
		settle(t, kit)
		require.LessOrEqual(t, m.total(), calls+6, "two changes, and for each the events of the child's write and of the status', which may come apart")
		require.Empty(t, readsOfSecrets(t, log, from, "c94"))
		require.True(t, holds())
	}
	nameless := func(r request) bool {
		return !strings.Contains(r.URI, "fieldSelector=metadata.name%3Ds") && r.Verb != "get"
	}

	begin := log.mark(t)
	own(0, 64)
	reads := readsOfSecrets(t, log, begin, "c94")
	require.Len(t, reads, 64, "a watch each")
	require.False(t, slices.ContainsFunc(reads, nameless))
	undisturbed(64, 64)

	begin = log.mark(t)
	own(64, 100)
	reads = readsOfSecrets(t, log, begin, "c94")
	require.LessOrEqual(t, len(reads), 1+36, "a watch of all, and a look at each new name")
	reads = slices.DeleteFunc(reads, func(r request) bool { return !nameless(r) })
	require.Len(t, reads, 1)
	require.Equal(t, "watch", reads[0].Verb)
	require.Equal(t, kit.Namespace, reads[0].Namespace)
	undisturbed(100, 1)

	kit.Stop()
	begin = log.mark(t)
	kit.Restart(cfg, m.handler())
	settle(t, kit)
	reads = readsOfSecrets(t, log, begin, "c94")
	require.LessOrEqual(t, len(reads), 1+100)
	reads = slices.DeleteFunc(reads, func(r request) bool { return !nameless(r) })
	require.Len(t, reads, 1)
	undisturbed(100, 1)

	for i := 40; i < 100; i++ {
		kit.Delete(naming(fmt.Sprint("p", i), ""))
	}
	undisturbed(40, 40)
}
