// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/shell"
)

const (
	maxWait     = 10 * time.Minute // for what one request may ask
	smallBody   = 1 << 20
	writeLimit  = 30 * time.Second // for a reader to take one line
	readerGrace = 15 * time.Second // for an attached reader to come back
)

// Server is a recoverable backend behind HTTP. It is made by [NewServer].
//
// Concurrency: a monitor. runs and the runs in it are touched only under mu, which is
// not held over a call of the backend. Goroutines belong to group.
type Server struct {
	backend shell.Recoverable
	o       ServerOptions
	mux     *http.ServeMux
	group   *lifecycle.Group
	slots   chan struct{} // one for each command that may run; nil for any number

	mu   sync.Mutex
	runs map[shell.RunID]*run
}

// NewServer returns a server over the backend. It starts nothing and listens nowhere:
// it is an [http.Handler]. Call [Server.Start] before the first request and
// [Server.Stop] after the last.
func NewServer(backend shell.Recoverable, o *ServerOptions) *Server {
	s := &Server{backend: backend, o: o.withDefaults(), mux: http.NewServeMux(), group: &lifecycle.Group{}, runs: map[shell.RunID]*run{}}
	if s.o.Slots > 0 {
		s.slots = make(chan struct{}, s.o.Slots) // its size is the limit
	}
	for pattern, h := range map[string]func(w http.ResponseWriter, r *http.Request, id shell.RunID) error{
		"PUT /v1/runs/{id}":                     s.put,
		"GET /v1/runs/{id}":                     s.get,
		"DELETE /v1/runs/{id}":                  s.release,
		"GET /v1/runs/{id}/output":              s.output,
		"POST /v1/runs/{id}/stop":               s.stop,
		"POST /v1/runs/{id}/stdin":              s.stdin,
		"PUT /v1/runs/{id}/readers/{reader}":    s.putReader,
		"DELETE /v1/runs/{id}/readers/{reader}": s.dropReader,
	} {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id := shell.RunID(r.PathValue("id"))
			err := id.Valid()
			if err == nil {
				err = h(w, r, id)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	s.mux.HandleFunc("GET /v1/runs", s.list)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, fault.Newf(fault.Invalid, "no such operation: %s %s", r.Method, r.URL.Path))
	})
	return s
}

// Start takes up what an earlier process left: its commands count for the slots, its
// leases run on.
func (s *Server) Start(ctx context.Context) error {
	if err := s.resumeLeases(); err != nil {
		return err
	}
	if s.slots == nil {
		return nil
	}
	ids, err := s.backend.List(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if st, err := s.backend.Recover(ctx, id); err != nil || st.Phase != shell.Live {
			continue
		}
		select {
		case s.slots <- struct{}{}:
			s.group.Go("slot", func(ctx context.Context) { s.freeSlot(ctx, id) })
		default: // the limit was higher then
		}
	}
	return nil
}

// Stop gives up what is queued or being provisioned, which then never starts, and the
// holds of readers. Commands that run go on.
func (s *Server) Stop(ctx context.Context) error {
	err := s.group.Stop(ctx)
	s.mu.Lock()
	var held []*reader
	for _, r := range s.runs {
		for name, rd := range r.readers {
			held = append(held, rd)
			delete(r.readers, name)
		}
		if r.leaseTimer != nil {
			r.leaseTimer.Stop()
		}
	}
	s.mu.Unlock()
	for _, rd := range held {
		rd.timer.Stop()
		_ = rd.att.Close()
	}
	return err
}

// Busy reports whether the server knows what would be lost with it: starts that are
// queued or provisioned, leases, holds of readers.
func (s *Server) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.pending() || r.lease || len(r.readers) > 0 {
			return true
		}
	}
	return false
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.admit(r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

var (
	errHost   = fault.New(fault.Forbidden, "this server has another name")
	errOrigin = fault.New(fault.Forbidden, "requests of web pages are not served")
	errToken  = fault.New(fault.Forbidden, "the token is missing or wrong")
)

// admit checks where a request comes from.
func (s *Server) admit(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	switch {
	case !slices.Contains(s.o.Hosts, strings.ToLower(strings.Trim(host, "[]"))):
		return errHost
	case r.Header.Get("Origin") != "":
		return errOrigin
	}
	if s.o.Trusted {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || s.o.Token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(s.o.Token)) != 1 {
		return errToken
	}
	return nil
}

// fail answers with a problem.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	code := fault.EdgeOf(fault.KindOf(err)).HTTP
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		p.Code, p.Title, code = fault.Invalid.String(), "the body is too large", http.StatusRequestEntityTooLarge
	case errors.Is(err, errToken):
		w.Header().Set("WWW-Authenticate", "Bearer")
		code = http.StatusUnauthorized
	case errors.Is(err, errHost):
		code = http.StatusMisdirectedRequest
	case errors.Is(err, shell.ErrReleased):
		code = http.StatusGone
	case errors.Is(err, shell.ErrFenced):
		code = http.StatusConflict
	}
	if code >= 500 && code != http.StatusNotImplemented {
		s.o.Log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	answer(w, code, p)
}

func answer(w http.ResponseWriter, code int, v any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // who does not read it asks again
}

// body decodes a request's body.
func body(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	err := strict(http.MaxBytesReader(w, r.Body, limit), v)
	var tooLarge *http.MaxBytesError
	if err == nil || errors.As(err, &tooLarge) {
		return err
	}
	return fault.Newf(fault.Invalid, "request body: %v", err)
}

// fenceOf reads the fence in a request's headers.
func fenceOf(r *http.Request) (f shell.Fence, err error) {
	for name, n := range map[string]*int64{headerGeneration: &f.Generation, headerAttempt: &f.Attempt} {
		v := r.Header.Get(name)
		if v == "" {
			return f, fault.Newf(fault.Invalid, "the header %s is missing", name)
		}
		if *n, err = strconv.ParseInt(v, 10, 64); err != nil || *n < 0 {
			return f, fault.Newf(fault.Invalid, "the header %s: %q is no number", name, v)
		}
	}
	return f, nil
}

// number and duration read an optional parameter of a query.
func number(r *http.Request, name string) (int64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.Newf(fault.Invalid, "%s=%s: want a number from 0 on", name, v)
	}
	return n, nil
}

func duration(r *http.Request, name string) (time.Duration, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fault.Newf(fault.Invalid, "%s=%s: want a duration such as 25s", name, v)
	}
	return min(d, maxWait), nil
}

// within refuses a directory outside the allowed root. Of one that does not exist it
// judges the part that does: the backend then says that it is not there.
func (s *Server) within(dir string) error {
	if s.o.Root == "" {
		return nil
	}
	root, err := filepath.EvalSymlinks(s.o.Root)
	if err != nil {
		return fault.Newf(fault.Unavailable, "start: the allowed root cannot be read: %v", err)
	}
	real := filepath.Clean(dir)
	for rest := ""; ; {
		r, err := filepath.EvalSymlinks(real)
		if err == nil {
			real = filepath.Join(r, rest)
			break
		}
		parent := filepath.Dir(real)
		if parent == real {
			break
		}
		rest, real = filepath.Join(filepath.Base(real), rest), parent
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fault.Newf(fault.Forbidden, "start: directory %s is outside the allowed root", dir)
	}
	return nil
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	ids, err := s.backend.List(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.mu.Lock()
	for id, run := range s.runs {
		if run.pending() && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	answer(w, http.StatusOK, listing{Runs: slices.Clip(ids)})
}
