// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"context"
	"crypto/rand"
	_ "embed" // the script
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/internal/keep"
)

var _ shell.StreamingShell = (*Shell)(nil)

//go:embed plain.sh
var plainScript string

// plainLine is what the user's shell on the host parses. The script comes as the first
// line of standard input.
const plainLine = `exec /bin/sh -c 'IFS= read -r _o_x && eval "$(printf %b "$_o_x")"'`

const heartbeat = 5 * time.Second

// Shell runs commands on a host that has a POSIX shell and nothing of this program. A
// command is a session: it ends with the link, and with the process that runs it. It is
// made by [NewShell].
//
// It stops the command's process group and, where the host has /proc, what carries its
// environment; a process that leaves both is not found. Of a command that ended by a signal it tells the code 128+n, no name.
//
// Concurrency: safe for concurrent use.
type Shell struct{ t *target }

// NewShell returns a shell on the host at a URL, which is one of [Dial].
func NewShell(rawURL string, o *Options) (*Shell, error) {
	t, err := parse(rawURL, o)
	if err != nil {
		return nil, err
	}
	return &Shell{t}, nil
}

// Capabilities implements [shell.Shell].
func (*Shell) Capabilities() shell.Capabilities {
	return shell.Capabilities{Streaming: true, OwnsTimeout: true, Leftovers: true, Umask: true}
}

// Execute implements [shell.Shell].
func (s *Shell) Execute(ctx context.Context, r shell.Request) (*shell.Response, error) {
	p, err := s.start(ctx, r)
	if err != nil {
		return nil, err
	}
	<-p.done
	return p.out.Response(p.exit), p.err
}

// Stream implements [shell.StreamingShell].
func (s *Shell) Stream(ctx context.Context, r shell.Request) iter.Seq2[shell.Part, error] {
	return func(yield func(shell.Part, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		p, err := s.start(ctx, r)
		if err != nil {
			yield(shell.Part{}, err)
			return
		}
		defer func() {
			cancel()
			<-p.done
		}()
		switch {
		case !p.out.Follow(p.done, func(part shell.Part) bool { return yield(part, nil) }):
		case p.err != nil:
			yield(shell.Part{}, p.err)
		default:
			yield(shell.Part{Exit: &p.exit}, nil)
		}
	}
}

// plainRun is one command. exit and err are set when done is closed, said when heard is.
//
// Concurrency: limited is under mu.
type plainRun struct {
	t     *target
	req   shell.Request
	ssh   *ssh.Client
	s     *ssh.Session
	in    io.WriteCloser
	out   *keep.Output
	group lifecycle.Group // its goroutines end before run does

	said  said
	told  chan struct{} // the script has told of the end
	heard chan struct{} // the script says no more
	read  chan struct{} // all output was read
	over  chan struct{} // the session has ended
	end   error         // how, set when over is closed

	quit chan struct{} // the script's input is to end
	stop func()        // closes quit, once

	mu      sync.Mutex
	limited bool

	done chan struct{}
	exit shell.Exit
	err  error
}

// said is what the script tells of the command.
type said struct {
	started, ended time.Time
	failed         string // why it was not executed
	cause          shell.Cause
	code           int
	left           int   // processes that were there after the command's end
	other          lines // what somebody else says
}

func (s *Shell) start(ctx context.Context, r shell.Request) (*plainRun, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if r.TTY != nil || r.StdinOpen || r.Split {
		return nil, fault.New(fault.Unsupported, "execute: this backend has no terminals, open input or separate streams")
	}
	if err := s.Capabilities().Honours(r.Limits); err != nil {
		return nil, err
	}
	no := func(step shell.Step, err error) error {
		return &shell.ExecError{Phase: step, Started: shell.No, Cause: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, no(shell.StepProvision, err)
	}
	r = r.WithDefaults()
	header, err := headerOf(r)
	if err != nil {
		return nil, err
	}
	c, err := s.t.login(ctx)
	switch {
	case ctx.Err() != nil:
		if c != nil {
			_ = c.Close()
		}
		return nil, no(shell.StepProvision, ctx.Err())
	case fault.Is(err, fault.Unavailable):
		return nil, no(shell.StepTransport, err)
	case err != nil:
		return nil, no(shell.StepProvision, err)
	}
	p := &plainRun{
		t: s.t, req: r, ssh: c, out: keep.New(r.Output),
		told: make(chan struct{}), heard: make(chan struct{}), read: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
		quit: make(chan struct{}),
	}
	p.stop = sync.OnceFunc(func() { close(p.quit) })
	if err := p.open(); err != nil {
		_ = c.Close()
		return nil, no(shell.StepStart, s.t.passing(ctx, err))
	}
	p.group.Go("command", func(context.Context) { p.run(ctx, header) })
	return p, nil
}

// open starts the script, which waits for its header.
func (p *plainRun) open() (err error) {
	st := p.t.begin(p.ssh)
	defer st.end()
	if p.s, err = p.ssh.NewSession(); err != nil {
		return err
	}
	if p.in, err = p.s.StdinPipe(); err != nil {
		return err
	}
	out, err := p.s.StdoutPipe()
	if err != nil {
		return err
	}
	errs, err := p.s.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.s.Start(plainLine); err != nil {
		return err
	}
	p.group.Go("output", func(context.Context) { p.copy(out) })
	p.group.Go("script", func(context.Context) { p.listen(errs) })
	p.group.Go("heartbeat", p.watch)
	return nil
}

// run sees one command to its end. The end of ctx, like that of the link, ends the
// script's standard input, which stops the command.
func (p *plainRun) run(ctx context.Context, header string) {
	unhook := context.AfterFunc(ctx, func() {
		p.stop()
		t := time.NewTimer(max(p.req.Grace, 0) + p.req.DrainCap + farewell)
		defer t.Stop()
		select {
		case <-p.over:
		case <-t.C:
			_ = p.ssh.Close() // it does not answer any more
		}
	})
	defer unhook()
	p.group.Go("session", func(context.Context) {
		p.end = p.s.Wait() // also for who still holds the output
		close(p.over)
	})
	p.group.Go("input", func(context.Context) { p.feed(header) })
	select {
	case <-p.told:
	case <-p.over:
	}
	whole := p.settle()
	p.exit, p.err = p.outcome(ctx)
	p.exit.Incomplete = !whole
	p.out.Count(&p.exit)
	var x *shell.ExecError
	if errors.As(p.err, &x) {
		x.Partial = p.out.Response(p.exit)
	}
	close(p.done)
}

// feed writes the header and ends the script's input when somebody wants the command to
// stop. When it does not get there the session's end tells.
func (p *plainRun) feed(header string) {
	defer p.in.Close()
	for len(header) > 0 {
		select {
		case <-p.quit: // without its last line nothing starts
			return
		default:
		}
		n, err := io.WriteString(p.in, header[:min(len(header), 32<<10)])
		if err != nil {
			return
		}
		header = header[n:]
	}
	select {
	case <-p.quit:
	case <-p.over:
	}
}

// settle waits until everything was read, and gives a process that still holds the
// output some time; false when that was not enough.
func (p *plainRun) settle() (whole bool) {
	t := time.NewTimer(p.req.DrainCap)
	defer t.Stop()
	whole = true
	for _, ch := range []chan struct{}{p.heard, p.read, p.over} {
		select {
		case <-ch:
		case <-t.C:
			whole = false
			_ = p.ssh.Close()
			<-ch
		}
	}
	_ = p.ssh.Close()
	return whole
}

// watch looks whether the link lives.
func (p *plainRun) watch(context.Context) {
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			alive(p.ssh) // closes it otherwise
		case <-p.over:
			return
		}
	}
}

// outcome says what the end of the session means, with what the script said.
func (p *plainRun) outcome(ctx context.Context) (shell.Exit, error) {
	e := shell.Exit{Cause: p.said.cause, Started: !p.said.started.IsZero(), StartedAt: p.said.started, EndedAt: p.said.ended}
	p.mu.Lock()
	limited := p.limited
	p.mu.Unlock()
	switch code := p.said.code; {
	case p.said.cause == "":
		return shell.Exit{Started: e.Started, StartedAt: e.StartedAt}, p.cut(ctx)
	case p.said.failed != "":
		e.Cause, e.Code, e.Reason = shell.StartFailed, &code, p.said.failed
		return e, nil
	case !e.Started && ctx.Err() != nil:
		e.Cause, e.Canceled, e.Reason = shell.Canceled, true, context.Cause(ctx).Error()
		return e, &shell.ExecError{Phase: shell.StepStart, Started: shell.No, Cause: ctx.Err()}
	case !e.Started:
		return e, &shell.ExecError{Phase: shell.StepStart, Started: shell.No, Cause: p.strange("the shell on the host could not start it")}
	default:
		e.Code, e.LeftoversStopped = &code, p.said.left
		if e.Cause == shell.Exited && p.req.Leftovers == shell.KeepLeftovers {
			e.LeftoversStopped, e.LeftoversKept = 0, p.said.left
		}
	}
	switch {
	case e.Cause == shell.TimedOut:
		e.TimedOut = true
	case e.Cause == shell.Canceled && limited:
		e.Cause = shell.OutputLimited
	case e.Cause == shell.Canceled && ctx.Err() != nil:
		e.Canceled, e.Reason = true, context.Cause(ctx).Error()
		return e, &shell.ExecError{Phase: shell.StepRun, Started: shell.Yes, Cause: ctx.Err()}
	case e.Cause != shell.Exited: // its input has ended, and we did not end it
		return e, &shell.ExecError{Phase: shell.StepTransport, Started: shell.Yes, Cause: p.strange("the host ended the session")}
	}
	return e, nil
}

// cut is a session that ended before the script told of the command's end: that is no
// exit, whatever status it has.
func (p *plainRun) cut(ctx context.Context) error {
	end := p.end
	x := &shell.ExecError{Phase: shell.StepRun, Started: shell.Yes}
	if p.said.started.IsZero() {
		x.Phase, x.Started = shell.StepStart, shell.Maybe
	}
	var status *ssh.ExitError
	switch {
	case errors.As(end, &status) && status.Signal() != "":
		x.Cause = p.strange("the watchdog on the host was killed by SIG" + status.Signal())
	case end == nil || status != nil:
		if x.Started == shell.Maybe {
			x.Started = shell.No // it says so before
		}
		x.Cause = p.strange("the shell on the host ended without a word of the command")
	case ctx.Err() != nil:
		x.Phase, x.Cause = shell.StepTransport, ctx.Err()
	default:
		x.Phase, x.Cause = shell.StepTransport, fault.Newf(fault.Unavailable, "ssh %s: the link was cut: %v", p.t.addr, end)
	}
	return x
}

func (p *plainRun) strange(what string) error {
	text := strings.TrimSpace(p.said.other.String())
	if text != "" {
		what += ": " + text
	}
	return fault.Newf(fault.Unavailable, "ssh %s: %s", p.t.addr, what)
}

// copy keeps the output.
func (p *plainRun) copy(out io.Reader) {
	defer close(p.read)
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		total := p.out.Write(shell.Merged, buf[:n])
		if p.req.Output.Limit > 0 && total > p.req.Output.Limit {
			p.mu.Lock()
			p.limited = true
			p.mu.Unlock()
			p.stop()
		}
		if err != nil {
			return
		}
	}
}

// listen reads what the script says.
func (p *plainRun) listen(errs io.Reader) {
	defer close(p.heard)
	r := bufio.NewReader(errs)
	name := ""
	if len(p.req.Argv) > 0 {
		name = p.req.Argv[0]
	}
	for {
		line, err := r.ReadString('\n')
		word, ours := strings.CutPrefix(line, "@outlive ")
		if !ours {
			_, _ = p.said.other.Write([]byte(line))
		}
		switch f := strings.Fields(word); {
		case !ours || len(f) == 0:
		case f[0] == "started":
			p.said.started = time.Now()
		case f[0] == "failed" && len(f) == 3:
			p.said.code, _ = strconv.Atoi(f[1])
			p.said.failed = map[string]string{
				"dir": "directory " + p.req.Dir + ": no such directory", "program": name + ": not found, or cannot be executed",
				"long": name + ": an argument is too long",
			}[f[2]]
		case f[0] == "end" && len(f) == 4 && p.said.cause == "":
			close(p.told)
			p.said.ended = time.Now()
			p.said.cause = shell.Cause(f[1])
			p.said.left, _ = strconv.Atoi(f[3])
			if p.said.failed == "" {
				p.said.code, _ = strconv.Atoi(f[2])
			}
		}
		if err != nil {
			return
		}
	}
}

var exportable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// headerOf is what the script reads: itself, then the request.
func headerOf(r shell.Request) (string, error) {
	var b strings.Builder
	line := func(words ...string) { b.WriteString(strings.Join(words, " ") + "\n") }
	line(escape(plainScript))
	line("dir", escape(r.Dir))
	if r.Command != "" {
		line("text", escape(r.Command))
	}
	for _, a := range r.Argv {
		line("arg", escape(a))
	}
	environ := shell.CleanEnviron(nil, false)
	if r.Environ != nil {
		environ = r.Environ
		line("whole")
	}
	for k, v := range r.Env {
		environ = append(environ, k+"="+v)
	}
	id := "plain-" + strings.ToLower(rand.Text())
	line("id", id)
	environ = append(environ, shell.Cookie+"="+id)
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		if !exportable.MatchString(k) || strings.HasPrefix(k, "_o_") {
			return "", fault.Newf(fault.Unsupported, "execute: this backend cannot set a variable of the name %q", k)
		}
		line("env", k, escape(v))
	}
	if len(r.Stdin) > 0 {
		line("in", escape(string(r.Stdin)))
	}
	if bits, ok := r.Umask.Bits(); ok {
		line("umask", strconv.FormatUint(uint64(bits), 8))
	}
	if r.Timeout > 0 {
		line("limit", strconv.FormatFloat(r.Timeout.Seconds(), 'f', -1, 64))
	}
	line("grace", ticks(r.Grace))
	line("drain", ticks(r.Drain))
	if r.Leftovers == shell.KeepLeftovers {
		line("keep")
	}
	line("go")
	return b.String(), nil
}

// ticks is a duration in what the script waits with; that of [shell.AtOnce] is 0.
func ticks(d time.Duration) string {
	const tick = 100 * time.Millisecond
	return strconv.FormatInt(int64((max(d, 0)+tick-1)/tick), 10)
}

// escape makes any bytes one word that printf %b turns back.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_./,:+=@-", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "\\0%03o", c)
		}
	}
	return b.String()
}
