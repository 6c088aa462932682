package cli

import (
	"flag"
	"fmt"
	"runtime/debug"
)

// addOwnFlags adds the program's own flags to those of a subcommand. An error says
// which flag is defined twice, or has no good name: a flag of the program may be none
// of any subcommand, so that it means the same to all of them.
func (p *Program) addOwnFlags(fs *flag.FlagSet) error {
	if p.Flags == nil {
		return nil
	}
	ours := map[string]bool{}
	fs.VisitAll(func(f *flag.Flag) { ours[f.Name] = true })
	if err := p.registerFlags(fs); err != nil {
		return err
	}
	for _, s := range subcommands() {
		var err error
		theirs := flag.NewFlagSet("", flag.ContinueOnError)
		s.prepare(theirs, &flags{})
		fs.VisitAll(func(f *flag.Flag) {
			if err == nil && !ours[f.Name] && theirs.Lookup(f.Name) != nil {
				err = fmt.Errorf("runner.Program: Flags: the flag %q is one of the subcommand %s already; give it another name", f.Name, s.name)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// registerFlags calls Flags. Package flag panics when a flag is defined twice: that
// becomes an error.
func (p *Program) registerFlags(fs *flag.FlagSet) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case string:
			err = fmt.Errorf("runner.Program: Flags: %s; a flag of this name is there already, or the name is none", r)
		default: // a mistake in Flags itself
			err = fmt.Errorf("runner.Program: Flags: panic: %v\n%s", r, debug.Stack())
		}
	}()
	p.Flags(fs)
	return nil
}
