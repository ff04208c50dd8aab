// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/shell/remote"
)

// What the process that serves says first.
const (
	saysReady = "ready"
	saysBusy  = "busy"
)

const (
	keepRuns   = 7 * 24 * time.Hour // for the files of a command that nobody released
	diskBudget = 10 << 30           // bytes above which the oldest of those go before
)

// serveMain is the process that serves, in its directory.
func serveMain(ctx context.Context, sum string, o HostOptions) int {
	err := serve(ctx, o, func() { fmt.Println(saysReady); os.Stdout.Close() }) //nolint:forbidigo // to who started it
	switch {
	case errors.Is(err, errServed):
		fmt.Println(saysBusy) //nolint:forbidigo // likewise
	case err != nil:
		b, _ := json.Marshal(hello{SHA256: sum, Error: err.Error(), Kind: fault.KindOf(err).String(), Hint: fault.Hint(err)})
		fmt.Println(string(b)) //nolint:forbidigo // likewise
		return 1
	}
	return 0
}

var errServed = errors.New("another process serves")

// serve serves the runs of this user until nobody has needed it for a while.
func serve(ctx context.Context, o HostOptions, ready func()) error {
	lock, err := os.OpenFile(nameLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errServed
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	b, err := local.Open(filepath.Join(filepath.Dir(dir), "runs"), &local.Options{OrphanAge: keepRuns})
	if err != nil {
		return err
	}
	defer b.Close()
	s := remote.NewServer(b, &remote.ServerOptions{Trusted: true, Lease: o.Lease, StateDir: filepath.Join(dir, nameLeases)})
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := os.Remove(nameSocket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", nameSocket)
	if err != nil {
		return err
	}
	ready()
	group := &lifecycle.Group{}
	group.Go("sweep", func(ctx context.Context) {
		_, _ = b.GC(ctx, func(shell.RunID) local.Verdict { return local.Stray }, diskBudget)
	})
	err = serveOn(ctx, s, l, o, group)
	bye, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	return errors.Join(err, s.Stop(bye), group.Stop(bye))
}

// serveOn serves connections until there has been none for the linger time and the
// server holds nothing.
func serveOn(ctx context.Context, s *remote.Server, l net.Listener, o HostOptions, group *lifecycle.Group) error {
	var open atomic.Int64
	h := &http.Server{
		Handler: s, Protocols: &http.Protocols{}, ReadHeaderTimeout: 10 * time.Second,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		ConnState: func(_ net.Conn, st http.ConnState) {
			switch st {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			default:
			}
		},
	}
	h.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	group.Go("http", func(context.Context) { ended <- h.Serve(l) })
	tick := time.NewTicker(o.Linger / 10)
	defer tick.Stop()
	used := time.Now()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		case <-tick.C:
			if open.Load() > 0 || s.Busy() {
				used = time.Now()
			}
			if time.Since(used) < o.Linger {
				continue
			}
		}
		_ = h.Close() // whoever came in this moment comes again
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}
