// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/console"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// runFlags are the words of outlive run.
type runFlags struct {
	detachAfter   time.Duration
	detached      bool
	timeout       time.Duration
	stdin         bool
	tty           bool
	detachKeys    string
	keys          *console.Keys
	memory        string
	cpus          float64
	limits        shell.Limits
	labels        []string
	cwd           string
	env           []string
	cleanEnv      bool
	backend       string
	name          string
	keepLeftovers bool
	onSignal      string
	text          string
	queue         string
	session       string
	busy          string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG...]",
		Short: "Run a command as a task, its output live",
		Long: "Runs a command as a task in the foreground. It lives on when this process or its\n" +
			"terminal goes: outlive ps finds it, logs -f follows it, wait gives its exit code,\n" +
			"cancel ends it. Flags end at the first word that is not one.\n\n" +
			"Ctrl-C at a terminal detaches after 2 s, a second one cancels. Elsewhere SIGINT and\n" +
			"SIGTERM cancel. A closed terminal or output detaches. Detached runs exit with 75.\n\n" +
			"With --tty the command has a terminal of its own and gets every key, Ctrl-C too; Ctrl-P\n" +
			"Ctrl-Q leaves it, outlive attach comes back. When it ends, what it left in the background\n" +
			"is hung up, as by any terminal that closes.\n\n" +
			"With --backend ssh://HOST it runs on that host, in the URL's directory (default: the home\n" +
			"there), with the host's umask, PATH, HOME and the like, and otherwise with this environment;\n" +
			"--clean-env keeps that here. The key of the host must be known, keys are those of the agent\n" +
			"and of ~/.ssh; the URL may name files: ?identity=FILE&known_hosts=FILE, and &exe=FILE, this\n" +
			"program built for that host.\n\n" +
			"With --session it is a turn of a conversation: it waits, here, until the turn before it\n" +
			"has ended, and does not start if it is interrupted meanwhile.",
		Example: "  outlive run --detach-after 30s -- make test\n  outlive run -d -- ./server\n  outlive run -c 'sleep 5 && echo done'\n  outlive run --backend ssh://build@ci/srv/app -- make test",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ownErrors(a.runTask(cmd, f, args))
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.DurationVar(&f.detachAfter, "detach-after", 0, "let it go on in the background after `D` (default: wait as long as it takes)")
	fs.BoolVarP(&f.detached, "detach", "d", false, "start it in the background and print its id alone")
	fs.DurationVar(&f.timeout, "timeout", 0, "the command's own time limit, `D` (default: none)")
	fs.BoolVarP(&f.stdin, "stdin", "i", false, "copy standard input to the command until its end")
	fs.BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal, and this one's keys and size")
	fs.StringVar(&f.detachKeys, "detach-keys", console.DetachKeys, "the `KEYS` that leave a command with a terminal; none for none")
	fs.StringArrayVar(&f.labels, "label", nil, "a label, `K=V`, may be repeated")
	fs.StringVar(&f.cwd, "cwd", "", "run in `DIR` (default: this directory)")
	fs.StringArrayVar(&f.env, "env", nil, "add `K=V` to the environment, may be repeated; it is not stored")
	fs.StringVar(&f.backend, "backend", "", "`URL` to run it at: ssh://[USER@]HOST[:PORT][/DIR], or that of an outlive sandboxd (default: this machine)")
	fs.BoolVar(&f.cleanEnv, "clean-env", false, "pass a small list of variables instead of this environment")
	fs.StringVar(&f.name, "name", "", "a `NAME` that is unique among unfinished tasks")
	fs.BoolVar(&f.keepLeftovers, "keep-leftovers", false, "leave processes alone that the command left behind")
	fs.StringVar(&f.memory, "memory", "", "the `SIZE` of memory it may use in all, such as 512m; more ends it")
	fs.Int64Var(&f.limits.Pids, "pids", 0, "at most `N` processes and threads of it at once")
	fs.Float64Var(&f.cpus, "cpus", 0, "the time of `N` processors it may use, such as 1.5")
	fs.Int64Var(&f.limits.Files, "nofile", 0, "at most `N` open files in each of its processes")
	fs.Int64Var(&f.limits.Processes, "nproc", 0, "no new process when this user has `N`")
	fs.StringVar(&f.onSignal, "on-signal", "", "`WHAT` to do on SIGINT, SIGTERM and SIGHUP: detach or cancel")
	fs.StringVarP(&f.text, "command", "c", "", "run shell `TEXT` instead of COMMAND")
	fs.StringVar(&f.queue, "queue", "", "the queue `Q` whose limit counts it")
	fs.StringVar(&f.session, "session", "", "run it as a turn of session `S`, which first use makes; its turns run one after another")
	fs.StringVar(&f.busy, "busy", string(session.Enqueue), "`WHAT` to do when the session's turn has not ended: enqueue (wait), reject, or interrupt it")
	return cmd
}

// ownErrors gives run and wait their code for errors of their own, so that they cannot
// be taken for the command's.
func (a *app) ownErrors(err error) error {
	var c *coded
	if err == nil || errors.As(err, &c) {
		return err
	}
	switch fault.KindOf(err) {
	case fault.Invalid:
		return &coded{code: exitUsage, err: err}
	case fault.Exists, fault.Conflict:
		return &coded{code: exitConflict, err: err}
	default:
		return &coded{code: exitOwn, err: err}
	}
}

func (a *app) runTask(cmd *cobra.Command, f runFlags, args []string) error {
	spec, labels, err := a.commandSpec(cmd, &f, args)
	if err != nil {
		return err
	}
	busy, err := busyPolicy(f.busy)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if a.far, err = reach(ctx, f.backend); err != nil {
		return err
	}
	if a.far != nil {
		spec.Dir = a.far.dir(f.cwd)
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	if f.backend == "" && spec.Limits != (shell.Limits{}) { // a backend elsewhere says so itself
		can, err := a.commands.Capabilities()
		if err == nil {
			err = can.Honours(spec.Limits)
		}
		if err != nil {
			return hinted(err, "--nofile and --nproc work everywhere; the others need a cgroup v2 that this user may divide")
		}
	}
	loan := &command.Loan{Attached: !f.detached, Backend: f.backend}
	switch { // values travel by pipe and are stored nowhere
	case a.far != nil && f.cleanEnv && !f.tty && len(f.env) == 0: // the host's own
	case a.far != nil:
		spec.Environ, loan.Environ = true, a.far.environ(f.cleanEnv, f.tty, f.env)
	case !f.cleanEnv:
		spec.Environ, loan.Environ = true, host.Overlay(os.Environ(), f.env)
	case len(f.env) > 0:
		spec.Environ, loan.Environ = true, host.Overlay(shell.CleanEnviron(os.Environ(), f.tty), f.env)
	}
	id := outlive.NewID("sh")
	s := outlive.Spec{
		ID: id, Executor: command.Key, Input: spec.Payload(), Name: f.name, Description: task.CutText(spec.String()),
		Labels: labels, Queue: f.queue, Here: true, Session: task.SessionID(f.session),
	}
	if f.session == "" { // a turn belongs to its session
		s.Parent = a.parent(ctx)
	}
	if !f.stdin {
		a.hintStdin()
	}
	a.commands.Lend(id, loan)
	defer a.tidy()
	return a.turn(ctx, s, busy, func(s outlive.Spec) error {
		if f.detached {
			return a.background(ctx, s, loan)
		}
		return a.foreground(ctx, s, loan, f)
	})
}

// commandSpec turns flags and words into a spec, refusing what is wrong before
// anything starts.
func (a *app) commandSpec(cmd *cobra.Command, f *runFlags, args []string) (command.Spec, map[string]string, error) {
	spec := command.Spec{Timeout: f.timeout, StdinOpen: f.stdin && !f.tty}
	switch {
	case f.text != "" && len(args) > 0:
		return spec, nil, usagef("-c %q and a command: give one of them", f.text)
	case f.text != "":
		spec.Command = f.text
	case len(args) == 0:
		return spec, nil, usagef("no command").withHint("outlive run -- COMMAND [ARG...]")
	default:
		spec.Argv = args
	}
	for name, d := range map[string]time.Duration{"timeout": f.timeout, "detach-after": f.detachAfter} {
		if cmd.Flags().Changed(name) && d <= 0 {
			return spec, nil, usagef("--%s %v: want a positive duration such as 90s", name, d)
		}
	}
	if f.detached && f.detachAfter > 0 {
		return spec, nil, usagef("-d and --detach-after: give one of them")
	}
	if cmd.Flags().Changed("busy") && f.session == "" {
		return spec, nil, usagef("--busy %s says what to do when a session is busy: name it with --session", f.busy)
	}
	if f.detached && f.stdin && !f.tty {
		return spec, nil, usagef("-d and -i: a detached command reads no input")
	}
	if err := checkOnSignal(f.onSignal); err != nil {
		return spec, nil, err
	}
	var err error
	if !strings.HasPrefix(f.backend, schemeSSH) { // there, directory and umask are the host's
		if spec.Dir, err = directory(f.cwd); err != nil {
			return spec, nil, err
		}
		if spec.Umask, err = host.Umask(); err != nil {
			return spec, nil, err
		}
	}
	if f.keepLeftovers {
		spec.Leftovers = shell.KeepLeftovers
	}
	spec.Split = !f.detached && !f.tty && !a.json && !host.SameFile(a.out, a.err)
	if f.tty {
		size := console.Size(a.out, a.in, a.err)
		spec.TTY = &size
	}
	if spec.Limits, err = f.bounds(cmd); err != nil {
		return spec, nil, err
	}
	if f.keys, err = console.ParseKeys(f.detachKeys); err != nil {
		return spec, nil, usagef("--detach-keys: %v", err)
	}
	env, err := pairs("env", f.env)
	if err != nil {
		return spec, nil, err
	}
	if _, taken := env[shell.Cookie]; taken {
		return spec, nil, usagef("--env %s: it is how a command finds the task it runs in", shell.Cookie)
	}
	labels, err := pairs("label", f.labels)
	return spec, labels, err
}

// bounds reads the limits of a command.
func (f *runFlags) bounds(cmd *cobra.Command) (l shell.Limits, err error) {
	l = f.limits
	for name, n := range map[string]float64{
		"pids": float64(l.Pids), "nofile": float64(l.Files), "nproc": float64(l.Processes), "cpus": f.cpus,
	} {
		if cmd.Flags().Changed(name) && !(n > 0 && n < 1e9) {
			return l, usagef("--%s %v: want a positive number", name, n)
		}
	}
	if l.MilliCPU = int64(f.cpus * 1000); f.cpus > 0 && l.MilliCPU == 0 {
		return l, usagef("--cpus %v: want at least 0.001", f.cpus)
	}
	if cmd.Flags().Changed("memory") {
		if l.Memory, err = text.ParseSize(f.memory); err != nil {
			return l, usagef("--memory: %v", err)
		}
	}
	return l, nil
}

// hinted adds what to do to an error that has a kind.
func hinted(err error, hint string) error {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.WithHint(hint)
	}
	return err
}

func checkOnSignal(what string) error {
	if what != "" && what != "detach" && what != "cancel" {
		return usagef("--on-signal %q: want detach or cancel", what)
	}
	return nil
}

func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usagef("--%s %q: want K=V", flag, kv)
		}
		m[k] = v
	}
	return m, nil
}

func directory(cwd string) (string, error) {
	dir, err := os.Getwd()
	if cwd == "" {
		if err != nil {
			return "", usagef("the working directory is gone: %v", err).withHint("name one with --cwd")
		}
		return dir, checkDir(dir)
	}
	if !strings.HasPrefix(cwd, "/") {
		if err != nil {
			return "", usagef("--cwd %s: the working directory is gone: %v", cwd, err)
		}
		cwd = dir + "/" + cwd
	}
	return cwd, checkDir(cwd)
}

func checkDir(dir string) error {
	switch fi, err := os.Stat(dir); {
	case err != nil:
		return usagef("directory %s: %v", dir, errors.Unwrap(err))
	case !fi.IsDir():
		return usagef("%s is no directory", dir)
	}
	return nil
}

// parent returns the task this process runs inside of, if this store knows it.
func (a *app) parent(ctx context.Context) task.ID {
	cookie := os.Getenv(shell.Cookie)
	i := strings.LastIndex(cookie, "-r")
	if i < 0 {
		return ""
	}
	id := task.ID(cookie[:i])
	if _, err := a.rt.Get(ctx, id); err != nil {
		return ""
	}
	return id
}

// background starts the command and returns as soon as it runs on its own.
func (a *app) background(ctx context.Context, s outlive.Spec, loan *command.Loan) error {
	rec, err := a.rt.Submit(ctx, s)
	if err != nil {
		return err
	}
	return a.started(ctx, rec, loan)
}

// started waits for the start of a task that this process submitted, and prints its
// id.
func (a *app) started(ctx context.Context, rec task.Record, loan *command.Loan) (err error) {
	if rec.State == task.Pending {
		a.note("%s does not start yet: it needs a worker (outlive why %s)", rec.ID, rec.ID)
	} else {
		<-loan.Ready
		if rec, err = a.earlyEnd(ctx, rec.ID); err != nil {
			return err
		}
	}
	if a.json {
		err = a.printTask(rec)
	} else {
		err = a.print(a.out, "%s\n", rec.ID)
	}
	if rec.Failure != nil && rec.Failure.Code == command.CodeStartFailed {
		return a.verdict(rec, false)
	}
	return err
}

// earlyEnd looks whether the command ended at once, as one does that cannot start.
func (a *app) earlyEnd(ctx context.Context, id task.ID) (task.Record, error) {
	rec, err := a.rt.Get(ctx, id)
	if err != nil || rec.State.Terminal() {
		return rec, err
	}
	b, err := a.commands.Backend(&rec)
	if err != nil {
		return rec, nil // the task runs; its end will tell
	}
	if st, err := b.Recover(ctx, command.RunID(id)); err != nil || st.Phase != shell.Finished && !hopeless(&rec) {
		return rec, nil // likewise
	}
	bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if done, err := a.rt.Wait(bounded, id, outlive.Terminal); err == nil {
		rec = done
	}
	return rec, nil
}

// hopeless reports whether a task's command is not there to be executed.
func hopeless(r *task.Record) bool {
	s, ok := specOf(r)
	if !ok || len(s.Argv) == 0 || command.IsURL(r.Place.Dir) { // what is there only the backend knows
		return false
	}
	name := s.Argv[0]
	if strings.ContainsRune(name, '/') && !filepath.IsAbs(name) {
		name = filepath.Join(s.Dir, name)
	}
	_, err := exec.LookPath(name)
	return err != nil
}

// verdict is a finished task as an exit code. After a command's own code outlive
// prints nothing.
func (a *app) verdict(r task.Record, passThrough bool) error {
	code, own := codeOf(&r)
	switch {
	case own && (passThrough || code == 0):
		if code == 0 {
			return nil
		}
		return &coded{code: code}
	case r.Failure != nil:
		return &coded{code: code, err: fmt.Errorf("%s %s", r.ID, ending(&r))}
	default:
		return &coded{code: code, err: fmt.Errorf("%s is %s", r.ID, r.State)}
	}
}

// codeOf returns the exit code a task stands for, and whether it is the command's
// own.
func codeOf(r *task.Record) (code int, own bool) {
	x, known := command.ExitOf(r)
	switch r.State {
	case task.Completed:
		if known && x.Code != nil {
			return *x.Code, true
		}
		return 0, true
	case task.Canceled:
		return exitCanceled, false
	case task.Failed:
		switch {
		case r.Failure.Code == command.CodeTimedOut:
			return exitTimedOut, false
		case r.Failure.Code == command.CodeStartFailed && known && x.Code != nil:
			return *x.Code, false
		}
		return exitFailed, false
	default:
		return exitRunning, false
	}
}

// ending says in a few words how a task ended.
func ending(r *task.Record) string {
	if r.Failure == nil {
		return string(r.State)
	}
	s := string(r.State)
	if r.State == task.Failed {
		s = strings.ReplaceAll(r.Failure.Code, "_", " ")
	}
	if m := r.Failure.Message; m != "" {
		s += ": " + m
	}
	return s
}
