// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/place"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// Exit codes of the command line; scripts rely on them.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNotFound = 3
	exitConflict = 4
	exitFailed   = 5
	exitCanceled = 6
	exitRunning  = 75
	exitTimedOut = 124
	exitOwn      = 125 // an error of run, attach or wait itself
)

// coded is an error that chooses its exit code. A nil err prints nothing.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string {
	if c.err == nil {
		return fmt.Sprintf("exit %d", c.code)
	}
	return c.err.Error()
}

func (c *coded) Unwrap() error { return c.err }

func usagef(format string, args ...any) *coded {
	return &coded{code: exitUsage, err: fault.Newf(fault.Invalid, format, args...)}
}

// app is one invocation of the command line.
type app struct {
	in       *os.File
	out, err *os.File

	storeURL string
	json     bool
	quiet    bool
	noInput  bool

	place    place.Place    // of the store, once it is open
	runs     string         // where this host's commands have their files, then
	st       place.Database // the store, then
	rt       *outlive.Runtime
	commands *command.Commands
	group    *lifecycle.Group // helpers of a command; they end with its context or the process
	far      *far             // the host that was reached for a command; nil for none
	leaving  bool             // the store failed: end like a process that was killed

	interrupted atomic.Int32 // the signal that ended a command early

	mu    sync.Mutex
	pause func() (resume func()) // what a stop (Ctrl-Z) must let go first
}

func run(args []string, in, out, stderr *os.File) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := &app{in: in, out: out, err: stderr, group: lifecycle.New(ctx)}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if cerr := a.close(); err == nil {
		err = cerr
	}
	return a.report(cmd, err)
}

// report prints an error as one line, and a hint where there is something to do,
// and returns the exit code.
func (a *app) report(cmd *cobra.Command, err error) int {
	if sig := syscall.Signal(a.interrupted.Load()); sig != 0 && err != nil {
		fmt.Fprintf(a.err, "outlive: %s\n", sig)
		return 128 + int(sig)
	}
	if err == nil {
		return exitOK
	}
	code, said := exitCode(err), err
	var c *coded
	if errors.As(err, &c) {
		if said = c.err; said == nil {
			return c.code
		}
	}
	name := "outlive"
	if cmd != nil && cmd.HasParent() {
		name += ": " + cmd.Name()
	}
	line, hint := name+": "+text.OneLine(said.Error())+"\n", ""
	if h := fault.Hint(said); h != "" {
		hint = "hint: " + text.OneLine(h) + "\n"
	}
	if cmd != nil && passesThrough(cmd.Name()) {
		// Scripts tell outlive's own codes from the command's by the last line.
		line, hint = hint, line
	}
	fmt.Fprint(a.err, line+hint)
	return code
}

// passesThrough reports whether a command's exit code may be that of the command it
// ran or waited for.
func passesThrough(name string) bool { return name == "run" || name == "attach" || name == "wait" }

func exitCode(err error) int {
	var c *coded
	if errors.As(err, &c) {
		return c.code
	}
	return fault.EdgeOf(fault.KindOf(err)).Exit
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "outlive",
		Short: "Run commands that outlive the call that started them",
		Long: "outlive runs a command as a task: it goes on when the terminal, the connection or\n" +
			"this process goes, and any later process finds it, follows it, waits for it or ends it.\n" +
			"Wherever an ID is wanted, a name does, and so do four characters of its beginning or end.",
		Example: "  outlive run -- make test            # watch it; Ctrl-C leaves it running\n" +
			"  outlive run -d --name web -- ./web  # start it in the background\n" +
			"  outlive ps                          # what runs\n" +
			"  outlive logs -f web                 # its output, from the start\n" +
			"  outlive wait web                    # its exit code",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          words(0, 0),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.storeURL, "store", "", "where tasks live, as `URL`: sqlite:PATH or postgres://... (default $OUTLIVE_STORE, else the user's state directory)")
	f.BoolVar(&a.json, "json", false, "print JSON for programs")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print no notes")
	f.BoolVar(&a.noInput, "no-input", false, "never ask and never treat this as an attended terminal")
	root.SetFlagErrorFunc(flagError)
	for _, add := range a.commandsOf() {
		add.DisableFlagsInUseLine = true
		root.AddCommand(add)
	}
	completion(root)
	return root
}

// open opens the store and makes a passive runtime over it: it starts nothing that
// it was not asked to start.
func (a *app) open(ctx context.Context) error {
	if a.rt != nil {
		return nil
	}
	where, err := a.where()
	if err != nil {
		return err
	}
	st, err := where.Open(ctx)
	if err != nil {
		return err
	}
	runs, err := where.Runs(st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	locks, err := where.Locks(st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	a.st, a.place, a.runs = st, where, runs
	a.heedStop()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("OUTLIVE_LOG") == "debug" {
		log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	a.commands = command.New(command.Options{
		Dir:  runs,
		Open: a.openBackend,
	})
	a.rt = outlive.New(st, &outlive.Options{Passive: true, LockDir: locks, Log: log})
	a.rt.Register(a.commands.Executor())
	return a.rt.Start(ctx)
}

// where finds the store: by the flag, the environment, or in the user's state directory.
func (a *app) where() (place.Place, error) { return place.Find(a.storeURL) }

func (c *coded) withHint(h string) *coded {
	var e *fault.Error
	if errors.As(c.err, &e) {
		c.err = e.WithHint(h)
	}
	return c
}

// close drains the runtime and closes the store: commands go on.
func (a *app) close() error {
	if a.rt == nil || a.leaving {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := a.rt.Stop(ctx)
	if cerr := a.st.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close store: %w", cerr)
	}
	a.rt = nil
	return err
}

// attended reports whether a person sits there.
func (a *app) attended() bool {
	return !a.noInput && term.IsTerminal(int(a.in.Fd())) && term.IsTerminal(int(a.err.Fd()))
}

func (a *app) outIsTerminal() bool { return term.IsTerminal(int(a.out.Fd())) }

// note prints a line for people on stderr.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, "outlive: "+format+"\n", args...)
	}
}

// patience bounds how long a listing looks behind the records before it prints.
const patience = 200 * time.Millisecond

// reconcile lets the records tell the truth and returns those that do, reread, with
// the ids it could not verify.
func (a *app) reconcile(ctx context.Context, recs []task.Record) (fresh []task.Record, unverified map[task.ID]bool) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	unverified = map[task.ID]bool{}
	for _, id := range a.rt.Reconcile(bounded, recs) {
		unverified[id] = true
	}
	for i := range recs {
		if !recs[i].State.Terminal() {
			if r, err := a.rt.Get(ctx, recs[i].ID); err == nil {
				recs[i] = r
			}
		}
	}
	return recs, unverified
}

// resolve finds the task that a word names: an id, four or more characters of its
// beginning or end, or a name (the newest wins).
func (a *app) resolve(ctx context.Context, word string) (task.Record, error) {
	if err := a.open(ctx); err != nil {
		return task.Record{}, err
	}
	if r, err := a.rt.Get(ctx, task.ID(word)); err == nil || !fault.Is(err, fault.NotFound) {
		return r, err
	}
	recs, err := a.rt.Find(ctx, word, 20)
	if err != nil {
		return task.Record{}, err
	}
	var byID []task.Record
	for _, r := range recs {
		if r.Name == word {
			return r, nil // newest first
		}
		if len(word) >= 4 {
			byID = append(byID, r)
		}
	}
	switch len(byID) {
	case 1:
		return byID[0], nil
	case 0:
		return task.Record{}, &coded{code: exitNotFound, err: fault.Newf(fault.NotFound, "no task %q", word).
			WithHint("outlive ps -a lists them; four characters of an id's beginning or end are enough")}
	}
	ids := make([]string, len(byID))
	for i, r := range byID {
		ids[i] = string(r.ID)
	}
	return task.Record{}, usagef("%q is ambiguous: %s", word, strings.Join(ids, ", "))
}

// named resolves a word and lets the task tell the truth.
func (a *app) named(ctx context.Context, word string) (task.Record, error) {
	r, err := a.resolve(ctx, word)
	if err != nil {
		return r, err
	}
	recs, _ := a.reconcile(ctx, []task.Record{r})
	return recs[0], nil
}

func (a *app) print(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format, args...)
	return err
}
