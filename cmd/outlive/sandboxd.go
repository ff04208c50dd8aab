// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/shell/remote"
)

const (
	sandboxKeep   = 7 * 24 * time.Hour // for the files of a command that nobody released
	sandboxBudget = 10 << 30           // bytes above which the oldest of those go before
	sandboxSweep  = time.Hour
	sandboxBye    = 2 * time.Second
)

// sandboxFlags are the words of outlive sandboxd.
type sandboxFlags struct {
	listen, root, cert, key string
	slots                   int
}

func (a *app) sandboxdCommand() *cobra.Command {
	var f sandboxFlags
	cmd := &cobra.Command{
		Use:   "sandboxd [flags]",
		Short: "Run commands for other processes, over HTTP",
		Long: "Serves commands to outlive run --backend, of this user on this machine by itself, of others\n" +
			"who have the token in OUTLIVE_BACKEND_TOKEN. Prints its URL. Commands go on when it ends, and\n" +
			"are found again by the next one.",
		Example: "  outlive sandboxd --listen 127.0.0.1:8021\n  outlive run --backend http://127.0.0.1:8021 -- make test",
		Args:    words(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.sandboxd(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "`ADDR` to listen on, as host:port; beyond loopback it needs a certificate")
	fs.StringVar(&f.root, "root", "", "the `DIR` that commands must be started in, or below (default: any)")
	fs.IntVar(&f.slots, "slots", 0, "run at most `N` commands at once and queue the others (default: no limit)")
	fs.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate")
	fs.StringVar(&f.key, "tls-key", "", "`FILE` with its key")
	return cmd
}

func (a *app) sandboxd(ctx context.Context, f sandboxFlags) error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usagef("--listen %q: want host:port", f.listen)
	}
	if f.slots < 0 {
		return usagef("--slots %d: want a number from 0", f.slots)
	}
	if (f.cert == "") != (f.key == "") {
		return usagef("--tls-cert and --tls-key: give both")
	}
	ip := net.ParseIP(host)
	if f.cert == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("--listen %s: without --tls-cert and --tls-key only on the loopback", f.listen)
	}
	if f.root != "" {
		if f.root, err = filepath.Abs(f.root); err == nil {
			err = checkDir(f.root)
		}
		if err != nil {
			return err
		}
	}
	dir, err := remote.TokenDir()
	if err != nil {
		return err
	}
	b, err := local.Open(filepath.Join(dir, "runs"), &local.Options{OrphanAge: sandboxKeep})
	if err != nil {
		return err
	}
	defer b.Close()
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	scheme := "http"
	var conf *tls.Config
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return usagef("certificate: %v", err)
		}
		conf, scheme = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, "https"
		hosts = append(hosts, certNames(pair)...)
	}
	if host != "" {
		hosts = append(hosts, host)
	}
	token := os.Getenv(remote.TokenEnv)
	if token == "" {
		token = remote.NewToken()
	}
	level := slog.LevelInfo
	if a.quiet {
		level = slog.LevelWarn
	}
	s := remote.NewServer(b, &remote.ServerOptions{
		Token: token, Hosts: hosts, Root: f.root, Slots: f.slots, StateDir: filepath.Join(dir, "leases"),
		Log: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})),
	})
	if err := s.Start(ctx); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", f.listen, err)
	}
	addr := l.Addr().String()
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	note, err := remote.SaveToken(dir, addr, token)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer os.Remove(note)
	a.group.Go("sweep", func(ctx context.Context) { sweepRuns(ctx, b) })
	if err := a.print(a.out, "%s://%s\n", scheme, addr); err != nil {
		return errors.Join(err, l.Close())
	}
	return a.serveUntilSignal(ctx, s, l)
}

// serveUntilSignal serves until somebody ends it. Commands go on.
func (a *app) serveUntilSignal(ctx context.Context, s *remote.Server, l net.Listener) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	ended := make(chan error, 1)
	a.group.Go("http", func(context.Context) { ended <- h.Serve(l) })
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), sandboxBye)
	defer cancel()
	if h.Shutdown(bye) != nil {
		_ = h.Close() // streams of those who follow: they come back or do not
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), sandboxBye)
	defer done()
	return errors.Join(err, s.Stop(last))
}

// sweepRuns removes, from time to time, the files of commands that nobody released.
func sweepRuns(ctx context.Context, b *local.Recoverable) {
	t := time.NewTicker(sandboxSweep)
	defer t.Stop()
	for {
		_, _ = b.GC(ctx, func(shell.RunID) local.Verdict { return local.Stray }, sandboxBudget)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// certNames returns the names a certificate is for.
func certNames(pair tls.Certificate) []string {
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil
	}
	names := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
