// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// The verdicts of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// check is one line of doctor.
type check struct {
	Name   string `json:"check"`
	Status string `json:"status"`
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

func okf(name, format string, args ...any) check {
	return check{Name: name, Status: checkOK, Text: fmt.Sprintf(format, args...)}
}

func warnf(name, hint, format string, args ...any) check {
	return check{Name: name, Status: checkWarn, Text: fmt.Sprintf(format, args...), Hint: hint}
}

func failed(name string, err error) check {
	return check{Name: name, Status: checkFail, Text: oneLine(err.Error()), Hint: oneLine(fault.Hint(err))}
}

func failf(name, hint, format string, args ...any) check {
	return check{Name: name, Status: checkFail, Text: fmt.Sprintf(format, args...), Hint: hint}
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the store, its tasks and this machine; exit 1 when something is wrong",
		Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(a.interruptible(cmd.Context()))
		},
	}
}

func (a *app) doctor(ctx context.Context) error {
	bad := 0
	say := func(list ...check) error {
		for _, c := range list {
			if c.Status == checkFail {
				bad++
			}
			if err := a.sayCheck(c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := a.open(ctx); err != nil {
		if err := say(failed("store", err), checkService()); err != nil {
			return err
		}
		return &coded{code: exitError}
	}
	for _, step := range []func(context.Context) []check{
		a.checkStore, a.checkWorkers, a.checkTasks, a.checkRuns, a.checkDisk, a.checkClock,
		func(context.Context) []check { return []check{checkService()} },
	} {
		if err := say(step(ctx)...); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if bad > 0 {
		return &coded{code: exitError}
	}
	return nil
}

func (a *app) sayCheck(c check) error {
	if a.json {
		return a.printJSON(c)
	}
	code := map[string]string{checkOK: green, checkWarn: yellow, checkFail: red}[c.Status]
	text := fmt.Sprintf("%s  %-8s  %s\n", a.color(code, fmt.Sprintf("%-4s", c.Status)), c.Name, c.Text)
	if c.Hint != "" {
		text += fmt.Sprintf("%16shint: %s\n", "", c.Hint)
	}
	return a.print(a.out, "%s", text)
}

func (a *app) checkStore(ctx context.Context) []check {
	info := a.st.Info()
	if err := integrity(ctx, info.Path); err != nil {
		return []check{failed("store", err)}
	}
	var n int64
	err := a.st.View(ctx, func(v store.View) error {
		counts, err := v.Counts()
		for _, c := range counts {
			n += c
		}
		return err
	})
	if err != nil {
		return []check{failed("store", err)}
	}
	return []check{okf("store", "%s, schema %d, %d tasks, %s", info.Path, info.Schema, n, size(fileSizes(info.Path)))}
}

// fileSizes is what the store's own files take.
func fileSizes(path string) (n int64) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if fi, err := os.Stat(path + suffix); err == nil {
			n += fi.Size()
		}
	}
	return n
}

func (a *app) checkWorkers(ctx context.Context) []check {
	before, err := a.rt.Workers(ctx)
	if err != nil {
		return []check{failed("workers", err)}
	}
	a.rt.Reconcile(ctx, nil) // the dead are buried
	after, err := a.rt.Workers(ctx)
	if err != nil {
		return []check{failed("workers", err)}
	}
	out := []check{okf("workers", "%d alive", len(after))}
	if n := len(before) - len(after); n > 0 {
		out[0].Text += fmt.Sprintf(", %d dead ones cleared away", n)
	}
	for i := range after {
		if w := &after[i]; time.Now().After(w.LeaseUntil) {
			out = append(out, warnf("workers", "it hangs, or its host is gone; its tasks are taken over when four leases have passed",
				"worker %s (pid %d on %s) did not renew since %s", w.ID, w.PID, w.Host, w.RenewedAt.Local().Format(time.DateTime)))
		}
	}
	return out
}

// checkTasks looks at every record and at how its story in the journal ends.
func (a *app) checkTasks(ctx context.Context) []check {
	var out []check
	n := 0
	err := a.pages(ctx, store.Filter{}, func(recs []task.Record) (bool, error) {
		for i := range recs {
			n++
			if err := task.Check(recs[i]); err != nil {
				out = append(out, failf("tasks", "report it, with the output of outlive show "+string(recs[i].ID), "%s: %v", recs[i].ID, err))
			}
			c, err := a.checkEnd(ctx, &recs[i])
			if err != nil {
				return false, err
			}
			if c != nil {
				out = append(out, *c)
			}
		}
		return len(out) < 20 && ctx.Err() == nil, nil
	})
	switch {
	case err != nil:
		return append(out, failed("tasks", err))
	case len(out) == 0:
		return []check{okf("tasks", "%d records are sound, and each that has ended has one end in its journal", n)}
	}
	return out
}

// checkEnd counts the terminal entries of a task: one when it has ended, else none.
func (a *app) checkEnd(ctx context.Context, r *task.Record) (*check, error) {
	ends, want := 0, 0
	if r.State.Terminal() {
		want = 1
	}
	err := a.st.View(ctx, func(v store.View) error {
		ends = 0
		for after := int64(0); ; {
			page, err := v.Entries(journal.StreamID(r.Stream()), after, store.MaxPage)
			if err != nil {
				return err
			}
			for i := range page {
				if page[i].Task == string(r.ID) && journal.Terminal(page[i].Kind) {
					ends++
				}
			}
			if len(page) < store.MaxPage {
				return nil
			}
			after = page[len(page)-1].Seq
		}
	})
	if err != nil || ends == want {
		return nil, err
	}
	if now, err := a.rt.Get(ctx, r.ID); err == nil && now.Version != r.Version {
		return nil, nil // it ended while we looked
	}
	c := failf("tasks", "report it, with the output of outlive events "+string(r.ID), "%s is %s and has %d ends in its journal", r.ID, r.State, ends)
	return &c, nil
}

func (a *app) checkRuns(ctx context.Context) []check {
	list, _, err := a.strays(ctx)
	if err != nil {
		return []check{failed("runs", err)}
	}
	use := int64(0)
	_ = filepath.WalkDir(a.runsDir(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			use += diskUse(path)
		}
		return nil
	})
	out := []check{okf("runs", "%s, %s", a.runsDir(), size(use))}
	if len(list) > 0 {
		live := 0
		for _, s := range list {
			if s.Phase == "live" {
				live++
			}
		}
		out = append(out, warnf("runs", "outlive ps --orphans lists them, outlive gc removes those that ended a day ago",
			"%d commands have no task in this store, %d of them run", len(list), live))
	}
	return out
}

func (a *app) checkDisk(context.Context) []check {
	free, total, err := freeSpace(filepath.Dir(a.path))
	switch {
	case err != nil:
		return []check{warnf("disk", "", "free space is not known: %v", err)}
	case free < 16<<20:
		return []check{failf("disk", "free some space: nothing new can be stored", "%s free of %s", size(free), size(total))}
	case free < 512<<20 || free < total/50:
		return []check{warnf("disk", "outlive gc removes what may go", "%s free of %s", size(free), size(total))}
	}
	return []check{okf("disk", "%s free of %s", size(free), size(total))}
}

func (a *app) checkClock(ctx context.Context) []check {
	var now time.Time
	if err := a.st.View(ctx, func(v store.View) error {
		now = v.Now()
		return nil
	}); err != nil {
		return []check{failed("clock", err)}
	}
	if ahead := time.Until(now).Round(time.Millisecond); ahead > time.Second {
		return []check{warnf("clock", "set this machine's clock; the store's never goes back", "this machine is %s behind the store", ahead)}
	}
	return []check{okf("clock", "agrees with the store's")}
}

// checkService warns when a service manager would kill commands with the service.
func checkService() check {
	unit := serviceUnit()
	if unit == "" {
		return okf("service", "commands do not belong to a service")
	}
	mode, err := killMode(unit)
	const hint = "set KillMode=process in the unit, or start commands from outside of it"
	switch {
	case err != nil:
		return warnf("service", hint, "runs inside %s, whose KillMode is not known: %v", unit, err)
	case mode == "control-group" || mode == "mixed":
		return warnf("service", hint, "runs inside %s with KillMode=%s: its restart kills the commands started here", unit, mode)
	}
	return okf("service", "runs inside %s with KillMode=%s: commands survive its restart", unit, mode)
}

// unitOf finds the service in the lines of /proc/self/cgroup.
func unitOf(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
		last := path[strings.LastIndexByte(path, '/')+1:]
		if strings.HasSuffix(last, ".service") && !strings.HasPrefix(last, "user@") {
			return last
		}
	}
	return ""
}

func (a *app) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the store to this version's schema, and say which it has",
		Long: "A SQLite store is brought to the present schema by whatever opens it first, after a copy\n" +
			"of an older one was made beside it. This does so and says what was done.",
		Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.storePath()
			if err != nil {
				return err
			}
			_, serr := os.Stat(path)
			before, _ := filepath.Glob(path + ".v*.bak")
			if err := a.open(cmd.Context()); err != nil {
				return err
			}
			after, _ := filepath.Glob(path + ".v*.bak")
			did := "current"
			switch {
			case os.IsNotExist(serr):
				did = "made"
			case len(after) > len(before):
				did = "migrated"
			}
			if a.json {
				return a.printJSON(map[string]any{"store": path, "schema": a.st.Info().Schema, "status": did, "copies": after})
			}
			text := map[string]string{
				"current": "is current", "made": "was made new", "migrated": "was migrated; the old one is kept as " + strings.Join(after, ", "),
			}[did]
			return a.print(a.out, "%s: schema %d %s\n", path, a.st.Info().Schema, text)
		},
	}
}
