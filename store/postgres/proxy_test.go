// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/internal/pgtest"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/task"
)

// cut says what becomes of the next COMMIT that a proxy sees, and of its connection.
type cut int

const (
	cutNone   cut = iota
	cutAfter      // it arrives, and its answer is lost
	cutBefore     // it does not arrive
	cutLate       // it arrives when somebody releases it
)

// proxy is what is between a store and its server.
type proxy struct {
	dsn, server string

	mu   sync.Mutex
	next cut
	late func() // delivers what was held back
}

// newProxy puts a proxy before the database of a URL.
func newProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "px")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const socket = ".s.PGSQL.5432"
	host := u.Query().Get("host")
	if host == "" || host[0] != '/' {
		t.Skip("the database is not one on a socket")
	}
	// Statements travel as text, so that one can be recognized.
	p := &proxy{dsn: pgtest.With(pgtest.With(dsn, "host", dir), "pooler", "transaction"), server: filepath.Join(host, socket)}
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) arm(c cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = c
}

// spent reports whether what was armed has happened, and returns how to deliver what
// was held back.
func (p *proxy) spent() (late func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late, p.next == cutNone
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", p.server)
	if err != nil {
		client.Close()
		return
	}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				client.Close()
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return // the other direction decides when the server's side ends
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			server.Close()
			return
		}
		if bytes.Contains(buf[:n], []byte("COMMIT\x00")) && p.cut(client, server, buf[:n]) {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			client.Close()
			return
		}
	}
}

// cut does to a COMMIT what is armed. It reports whether the connection is over.
func (p *proxy) cut(client, server net.Conn, message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.next
	p.next = cutNone
	switch next {
	case cutNone:
		return false
	case cutAfter:
		client.Close()
		_, _ = server.Write(message) // its answer has nowhere to go
		return true
	case cutBefore:
		client.Close()
		server.Close()
	case cutLate:
		message = bytes.Clone(message)
		client.Close()
		p.late = func() {
			_, _ = server.Write(message)
			_ = server.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = server.Read(make([]byte, 1<<16)) // whatever it says, it has had it
			server.Close()
		}
	}
	return true
}

// The connection is lost with a COMMIT under way, which arrived, or not, or arrives when
// it was given up: the update is done once, and its caller is told so.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	p := newProxy(t, dsn)
	st := openAt(t, p.dsn, postgres.Options{})
	direct := openAt(t, dsn, postgres.Options{})
	for i, c := range []struct {
		name string
		cut  cut
	}{{"after", cutAfter}, {"before", cutBefore}, {"late", cutLate}, {"after, again", cutAfter}} {
		n := int64(i + 1)
		if err := appendTo(t.Context(), st, "s", 100+n); err != nil {
			t.Fatal(err)
		}
		p.arm(c.cut)
		if err := appendTo(t.Context(), st, "s", n); err != nil {
			t.Errorf("%s: Update = %v", c.name, err)
		}
		late, spent := p.spent()
		if !spent {
			t.Fatalf("%s: the connection was not cut", c.name)
		}
		if c.cut == cutLate {
			late()
		}
		if have := numbers(t, direct, "s"); have[n] != 1 {
			t.Errorf("%s: the update was done %d times", c.name, have[n])
		}
	}
}

// Behind a pooler that hands out connections by the transaction nothing is lost but the
// speed of the doorbell.
func TestPooler(t *testing.T) {
	t.Parallel()
	dsn := pgtest.With(migrated(t), "pooler", "transaction")
	a, b := openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})
	testHeard(t, a, b)
}

// With notifications switched off everything works, later.
func TestPoll(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	a, b := openAt(t, dsn, postgres.Options{Doorbell: postgres.DoorbellPoll}), openAt(t, dsn, postgres.Options{Doorbell: postgres.DoorbellPoll})
	testHeard(t, a, b)
}

// Who listens hears also those who send no notifications: theirs may be lost.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	testHeard(t, openAt(t, dsn, postgres.Options{Doorbell: postgres.DoorbellPoll}), openAt(t, dsn, postgres.Options{}))
}

// testHeard checks that b hears of what a commits, and reads it.
func testHeard(t *testing.T, a, b store.Store) {
	t.Helper()
	hints := make(chan store.Hint, 1000) // more than this rings
	ctx := t.Context()
	var wg sync.WaitGroup
	wg.Go(func() {
		for h := range b.Changes(ctx) {
			hints <- h
		}
	})
	t.Cleanup(func() { b.Close(); wg.Wait() })
	for i := range 10 {
		id := task.ID(string(rune('a' + i)))
		if err := a.Update(ctx, []store.Key{store.TaskKey(id), store.StreamKey("s")}, func(tx store.Tx) error {
			tx.PutTask(task.Record{ID: id, State: task.Pending})
			tx.Append(journal.Entry{Stream: "s", Kind: "k"})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		timeout := time.NewTimer(20 * time.Second)
		for there := false; !there; {
			select {
			case <-hints:
			case <-timeout.C:
				t.Fatalf("commit %d is not heard of", i)
			}
			if err := b.View(ctx, func(v store.View) (err error) {
				_, there, err = v.Task(id)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		timeout.Stop()
	}
}
