// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/outlive-dev/outlive/shell/ssh"
)

// The test binary is also the command line, and so the supervisor of what that starts.
func TestMain(m *testing.M) {
	if ssh.Main(os.Args, nil) {
		return
	}
	if os.Getenv(sftpServer) != "" {
		os.Exit(serveFiles())
	}
	if filepath.Base(os.Args[0]) != "outlive" {
		flag.Parse()
		// Most tests wait for other processes most of the time.
		_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else each process lasts a second
	testscript.Main(m, map[string]func(){
		"outlive": func() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// patient is how long a test waits for what must happen.
const patient = 20 * time.Second

// until waits for a condition, and looks at it every few milliseconds.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !within(patient, ok) {
		t.Fatalf("after %v still not: %s", patient, what)
	}
}

func within(d time.Duration, ok func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		if ok() {
			return true
		}
	}
	return ok()
}

// box is a store of its own, and the command line over it.
type box struct {
	t     testing.TB
	dir   string
	store string
	env   []string
}

func newBox(t testing.TB) *box {
	t.Helper()
	dir := t.TempDir()
	return boxAt(t, dir, filepath.Join(dir, "store", "s.db"))
}

func boxAt(t testing.TB, dir, store string) *box {
	t.Helper()
	b := &box{t: t, dir: dir, store: store}
	b.env = append(cleanEnv(), "OUTLIVE_STORE=sqlite:"+store, "HOME="+dir, "OUTLIVE_TEST_BOX="+dir)
	t.Cleanup(func() { sweep(dir) })
	return b
}

// cleanEnv is this process's environment without what would change a test.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if k, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(k, "OUTLIVE_") && k != "XDG_STATE_HOME" && k != "NO_COLOR" {
			env = append(env, kv)
		}
	}
	return env
}

// marked lists the processes whose environment has the entry, or one of whose
// arguments is below dir (of a supervisor: its run's directory).
func marked(entry, dir string) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range list {
		env, err := os.ReadFile(proc + "/environ")
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(proc + "/cmdline")
		ours := bytes.Contains(append([]byte{0}, env...), []byte("\x00"+entry+"\x00")) ||
			bytes.Contains(args, []byte("\x00"+dir))
		if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil && ours && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sweep ends what a test started in a directory and left behind.
func sweep(dir string) {
	within(5*time.Second, func() bool {
		left := marked("OUTLIVE_TEST_BOX="+dir, dir)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
}

// noProcess waits until no process of the task is left, its supervisor included.
func (b *box) noProcess(id string) {
	b.t.Helper()
	until(b.t, "no process of "+id+" is left", func() bool {
		return len(marked("OUTLIVE_RUN="+id+"-r1", b.store+".runs/"+id[len(id)-2:]+"/"+id+"-r1")) == 0
	})
}

func (b *box) cmd(args ...string) *exec.Cmd {
	c := exec.Command("outlive", args...)
	c.Dir, c.Env = b.dir, b.env
	return c
}

// result is what a command printed and how it ended.
type result struct {
	out, err string
	code     int
}

func (b *box) run(args ...string) result {
	b.t.Helper()
	return b.wait(b.start(b.cmd(args...)))
}

// must runs a command that is to succeed and returns its output without the last
// newline.
func (b *box) must(args ...string) string {
	b.t.Helper()
	r := b.run(args...)
	if r.code != 0 {
		b.t.Fatalf("outlive %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return strings.TrimSuffix(r.out, "\n")
}

// proc is a command under way.
type proc struct {
	*exec.Cmd
	out, err *buffer
	end      chan struct{}
}

// buffer collects output while somebody looks at it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *box) start(c *exec.Cmd) *proc {
	b.t.Helper()
	p := &proc{Cmd: c, out: &buffer{}, err: &buffer{}, end: make(chan struct{})}
	if c.Stdout == nil {
		c.Stdout = p.out
	}
	if c.Stderr == nil {
		c.Stderr = p.err
	}
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer close(p.end)
		_ = c.Wait()
	}()
	return p
}

func (b *box) wait(p *proc) result {
	b.t.Helper()
	select {
	case <-p.end:
	case <-time.After(3 * patient):
		_ = p.Process.Kill()
		b.t.Fatalf("%s does not end\n%s%s", p.Cmd, p.out, p.err)
	}
	code := p.ProcessState.ExitCode()
	if ws, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = -int(ws.Signal())
	}
	return result{p.out.String(), p.err.String(), code}
}

// want fails unless a command ended with the code and its last line on stderr says so.
func (b *box) want(r result, code int, stderr string) {
	b.t.Helper()
	if r.code != code || !strings.Contains(r.err, stderr) {
		b.t.Fatalf("exit %d, want %d and %q on stderr\nstdout: %s\nstderr: %s", r.code, code, stderr, r.out, r.err)
	}
}

// task reads a task as show prints it for programs.
func (b *box) task(word string) (v taskView) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.must("--json", "show", word)), &v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

// only returns the one task there is.
func (b *box) only() string {
	b.t.Helper()
	id := ""
	until(b.t, "a task is listed", func() bool {
		ids := b.ids()
		if len(ids) > 0 {
			id = ids[0]
		}
		return len(ids) == 1
	})
	return id
}

func (b *box) ids() (ids []string) {
	b.t.Helper()
	for line := range strings.Lines(b.must("--json", "ps", "-a")) {
		var v taskView
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, string(v.ID))
	}
	return ids
}

// kinds counts the entries of a task by kind and checks that their numbers are dense.
func (b *box) kinds(id string) map[string]int {
	b.t.Helper()
	n, kinds := int64(0), map[string]int{}
	for line := range strings.Lines(b.must("events", id)) {
		var e entryView
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.t.Fatal(err)
		}
		if n++; e.Seq != n {
			b.t.Errorf("entry %d has seq %d", n, e.Seq)
		}
		kinds[e.Kind]++
	}
	return kinds
}

// once fails unless the task has each of the kinds exactly once.
func (b *box) once(id string, kinds ...string) {
	b.t.Helper()
	got := b.kinds(id)
	for _, k := range kinds {
		if got[k] != 1 {
			b.t.Errorf("%s: %d entries %s, want 1 (all: %v)", id, got[k], k, got)
		}
	}
}

// gate is the beginning of a command that says its pid and then waits for the test.
func (b *box) gate() (text string, open func()) {
	b.t.Helper()
	fifo := filepath.Join(b.dir, "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return "echo pid $$; read x <" + fifo + "; ", func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		defer f.Close()
		if _, err := io.WriteString(f, "x\n"); err != nil {
			b.t.Fatal(err)
		}
	}
}

// pidIn waits for a command's first line "pid N".
func pidIn(t testing.TB, text func() string) int {
	t.Helper()
	pid := 0
	until(t, "the command says its pid", func() bool {
		_, err := fmt.Sscanf(text(), "pid %d\n", &pid)
		return err == nil && strings.Contains(text(), "\n")
	})
	return pid
}

func alivePid(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// supervisor is the process that supervises a task's command.
func (b *box) supervisor(id string) int {
	b.t.Helper()
	pid := 0
	until(b.t, "the supervisor of "+id+" is there", func() bool {
		list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range list {
			line, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
			if len(args) >= 3 && args[1] == "__shim" && strings.HasSuffix(args[2], id+"-r1") {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
			}
		}
		return pid != 0
	})
	return pid
}

func isExit(err error) (int, bool) {
	var x *exec.ExitError
	if errors.As(err, &x) {
		return x.ExitCode(), true
	}
	return 0, err == nil
}
