// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
)

const (
	nameSocket = "sock"
	nameLock   = "lock"
	nameLeases = "leases"
)

// Main is the program on the host, when args (the program's os.Args) ask for that, and
// then does not return. Otherwise it returns false at once. It includes [local.Main].
func Main(args []string, o *HostOptions) (handled bool) {
	if local.Main(args) {
		return true
	}
	if len(args) < 2 {
		return false
	}
	ctx := context.Background() //nolint:forbidigo // this is a main function
	switch {
	case args[1] == argStdio && len(args) == 2:
		os.Exit(stdio(ctx, os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // likewise
	case args[1] == argServe && len(args) == 3:
		os.Exit(serveMain(ctx, args[2], o.withDefaults())) //nolint:forbidigo // likewise
	default:
		return false
	}
	return true
}

// stateDir is where this user's runs and sockets are.
func stateDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil || home == "" {
			return "", fault.New(fault.Unsupported, "there is no home directory")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "outlive", "ssh"), nil
}

// stdio is the program in a session: it finds or starts the one that serves, says
// hello, and passes bytes until one side ends.
func stdio(ctx context.Context, in io.Reader, out, log io.Writer) int {
	c, h := answerer(ctx)
	b, err := json.Marshal(h)
	if err == nil {
		_, err = out.Write(append(b, '\n'))
	}
	if err != nil || c == nil {
		fmt.Fprintln(log, h.Error)
		return 1
	}
	defer c.Close()
	var g lifecycle.Group // its goroutine ends with the process
	g.Go("input", func(context.Context) {
		_, _ = io.Copy(c, in)
		_ = c.CloseWrite()
	})
	_, _ = io.Copy(out, c) // whatever it is, the session is over
	return 0
}

// answerer returns a connection to the process that serves, or a hello with an error.
func answerer(ctx context.Context) (*net.UnixConn, hello) {
	h := hello{Outlive: 1}
	fail := func(err error) (*net.UnixConn, hello) {
		h.Error, h.Kind, h.Hint = err.Error(), fault.KindOf(err).String(), fault.Hint(err)
		return nil, h
	}
	sum, err := sumOf("/proc/self/exe")
	if err != nil {
		return fail(err)
	}
	h.SHA256, h.Environ = sum, shell.CleanEnviron(os.Environ(), true)
	if h.Home, err = os.UserHomeDir(); err != nil {
		h.Home = "/"
	}
	dir, err := stateDir()
	if err != nil {
		return fail(err)
	}
	// Paths of sockets are short: from here on it is the working directory.
	dir = filepath.Join(dir, sum[:16])
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		return fail(err)
	}
	c, err := reach(ctx, sum)
	if err != nil {
		return fail(err)
	}
	return c, h
}

// reach connects to the process that serves, and starts it where there is none. Of
// several that are started one gets the lock.
func reach(ctx context.Context, sum string) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", nameSocket)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		if ctx.Err() != nil {
			return nil, fault.Newf(fault.Unavailable, "the process that serves does not answer: %v", err)
		}
		if err := spawn(ctx, sum); err != nil {
			return nil, err
		}
	}
}

// spawn starts the process that serves and returns when it does, or when another one
// has the lock.
func spawn(ctx context.Context, sum string) error {
	cmd := exec.Command("/proc/self/exe", argServe, sum)
	cmd.Args[0] = "outlive"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	switch said = strings.TrimSpace(said); {
	case err != nil:
		return errors.Join(fault.New(fault.Unavailable, "the process that serves has died"), cmd.Wait())
	case said == saysReady:
		return cmd.Process.Release()
	case said == saysBusy:
		t := time.NewTimer(10 * time.Millisecond) // it is about to listen, or to end
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return cmd.Wait()
	}
	var h hello
	_ = json.Unmarshal([]byte(said), &h)
	kind, _ := fault.ParseKind(h.Kind)
	_ = cmd.Wait() // it has said why it ends
	return fault.New(kind, h.Error).WithHint(h.Hint)
}
