// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func (a *app) answerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "answer ID [TICKET] VALUE", Short: "Answer what a task waits for",
		Long: "Decides a ticket of a waiting task, also while nothing runs; the task goes on when a worker\n" +
			"of its executor does. Without TICKET it decides the only one that is open. VALUE is the answer\n" +
			"of a question (text, or JSON where the ticket has a schema); of an approval it is approve or\n" +
			"deny. The first decision counts: a later one exits 4 and says what was decided.",
		Args: words(2, 3), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r, err := a.named(ctx, args[0])
			if err != nil {
				return err
			}
			ticket, value := "", args[len(args)-1]
			if len(args) == 3 {
				ticket = args[1]
			}
			rows, err := a.rt.Tickets(ctx, r.ID)
			if err != nil {
				return err
			}
			row, err := a.rt.Answer(ctx, r.ID, task.TicketID(ticket), decisionFor(ticketOf(rows, ticket), value))
			if err != nil {
				if row.Decision != nil && fault.Is(err, fault.Conflict) {
					return fmt.Errorf("%w: %s", err, decisionWord(row.Decision))
				}
				return err
			}
			if a.json {
				return a.printJSON(row)
			}
			return a.print(a.out, "%s %s %s\n", r.ID, row.ID, row.Decision.Verdict)
		},
	}
}

// ticketOf returns the ticket of that id, or with none the first that is open.
func ticketOf(rows []mail.Ticket, id string) mail.Ticket {
	for i := range rows {
		if rows[i].ID == id || id == "" && rows[i].Open() {
			return rows[i]
		}
	}
	return mail.Ticket{}
}

// decisionFor makes of a word on the command line what the ticket asks for.
func decisionFor(t mail.Ticket, value string) mail.Decision {
	d := mail.Decision{Verdict: mail.Answered, Media: "text/plain", Value: []byte(value), By: whoami()}
	switch {
	case t.Kind == mail.Approval:
		d.Media, d.Value = "", nil
		switch strings.ToLower(value) {
		case "approve", "approved", "yes", "y":
			d.Verdict = mail.Approved
		case "deny", "denied", "no", "n":
			d.Verdict = mail.Denied
		default:
			d.Verdict = mail.Verdict(value) // refused with what there is
		}
	case len(t.Schema) > 0:
		d.Media = "application/json"
		if !json.Valid(d.Value) {
			d.Value, _ = json.Marshal(value) // a string always encodes
		}
	}
	return d
}

func whoami() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func decisionWord(d *mail.Decision) string {
	word := string(d.Verdict)
	if len(d.Value) > 0 {
		word += fmt.Sprintf(" %.200q", d.Value)
	}
	if d.By != "" {
		word += " by " + d.By
	}
	return word
}

func (a *app) sendCommand() *cobra.Command {
	var steer, interrupt bool
	var id string
	cmd := &cobra.Command{
		Use: "send [--steer | --interrupt] [--id ID] ID TEXT", Short: "Send a message to a task that reads input",
		Long: "Puts a message into the task's mailbox. To a task that waits for exactly one question it is the\n" +
			"answer, if it can be. --steer delivers it at the next safe point and wakes a waiting task.",
		Args: words(2, 2), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r, err := a.named(ctx, args[0])
			if err != nil {
				return err
			}
			in := mail.Input{ID: id, Kind: "message", Media: "text/plain", Data: []byte(args[1]), From: whoami()}
			switch {
			case steer && interrupt:
				return usagef("--steer and --interrupt are two ways to deliver; choose one")
			case steer:
				in.Delivery = mail.Steer
			case interrupt:
				in.Delivery = mail.Interrupt
			}
			if in, err = a.rt.Send(ctx, r.ID, in); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(in)
			}
			if in.Ticket != "" {
				return a.print(a.out, "%s answered %s\n", r.ID, in.Ticket)
			}
			return a.print(a.out, "%s %d\n", r.ID, in.Seq)
		},
	}
	cmd.Flags().BoolVar(&steer, "steer", false, "deliver it at the next safe point")
	cmd.Flags().BoolVar(&interrupt, "interrupt", false, "stop the present turn for it")
	cmd.Flags().StringVar(&id, "id", "", "the message's `ID`: the same one again changes nothing")
	return cmd
}

func (a *app) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "session", Short: "Look at conversations", Args: words(0, 0)}
	cmd.RunE = func(*cobra.Command, []string) error {
		return usagef("a word is missing").withHint("outlive session ls, show or events")
	}
	cmd.AddCommand(a.sessionLsCommand(), a.sessionShowCommand(), a.sessionEventsCommand())
	return cmd
}

// sessionView is a session as it is printed.
type sessionView struct {
	ID        task.SessionID `json:"id"`
	Principal string         `json:"principal,omitempty"`
	Policy    session.Policy `json:"policy"`
	Active    task.ID        `json:"active,omitempty"`
	Turns     int64          `json:"turns"`
	Waiting   int64          `json:"waiting"`
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
}

func viewSession(s *session.Session) sessionView {
	v := sessionView{s.ID, s.Principal, s.Policy, s.Active, s.Turns, s.Waiting, s.CreatedAt, s.UpdatedAt}
	if v.Policy == "" {
		v.Policy = session.Enqueue
	}
	return v
}

func (a *app) sessionLsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List conversations", Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.open(cmd.Context()); err != nil {
				return err
			}
			for after := task.SessionID(""); ; {
				list, err := a.rt.Sessions(cmd.Context(), after, store.MaxPage)
				if err != nil || len(list) == 0 {
					return err
				}
				if err := a.freshen(cmd.Context(), list); err != nil {
					return err
				}
				for i := range list {
					s := &list[i]
					after = s.ID
					if a.json {
						err = a.printJSON(viewSession(s))
					} else {
						err = a.print(a.out, "%s\t%d turns\t%d waiting\t%s\n", s.ID, s.Turns, s.Waiting, idleOr(s))
					}
					if err != nil {
						return err
					}
				}
			}
		},
	}
}

// freshen lets the sessions' turns tell the truth before the sessions are shown: one
// may have ended with nobody watching.
func (a *app) freshen(ctx context.Context, list []session.Session) error {
	var active []task.Record
	for i := range list {
		if list[i].Active == "" {
			continue
		}
		r, err := a.rt.Get(ctx, list[i].Active)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil {
			active = append(active, r)
		}
	}
	a.reconcile(ctx, active)
	for i := range list {
		if list[i].Active == "" {
			continue
		}
		s, err := a.rt.Session(ctx, list[i].ID)
		if err != nil {
			return err
		}
		list[i] = s
	}
	return nil
}

func idleOr(s *session.Session) string {
	if s.Active == "" {
		return "idle"
	}
	return string(s.Active)
}

func (a *app) sessionShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show SESSION", Short: "Show one conversation", Args: words(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := a.open(ctx); err != nil {
				return err
			}
			s, err := a.rt.Session(ctx, task.SessionID(args[0]))
			if err != nil {
				return err
			}
			one := []session.Session{s}
			if err := a.freshen(ctx, one); err != nil {
				return err
			}
			s = one[0]
			if a.json {
				return a.printJSON(viewSession(&s))
			}
			v := viewSession(&s)
			if err := a.print(a.out, "%-12s %s\n%-12s %s\n%-12s %d\n%-12s %s\n%-12s %d\n", "id", s.ID, "policy", v.Policy, "turns", s.Turns, "active", idleOr(&s), "waiting", s.Waiting); err != nil {
				return err
			}
			recs, err := a.rt.List(ctx, store.Filter{Session: s.ID, Limit: 10})
			if err != nil {
				return err
			}
			for i := range recs {
				if err := a.print(a.out, "%-12s %s %s\n", "turn", recs[i].ID, stateWord(&recs[i])); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) sessionEventsCommand() *cobra.Command {
	var after string
	var follow bool
	cmd := &cobra.Command{
		Use: "events [-f] [--after CURSOR] SESSION", Short: "Print a conversation's journal, one JSON object a line", Args: words(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := outlive.EventsOptions{NoFollow: !follow}
			if after != "" {
				c, err := journal.ParseCursor(after)
				if err != nil {
					return usagef("--after: %v", err)
				}
				o.After = c
			}
			ctx := a.interruptible(cmd.Context())
			if err := a.open(ctx); err != nil {
				return err
			}
			for e, err := range a.rt.SessionEvents(ctx, task.SessionID(args[0]), &o) {
				if err != nil {
					return err
				}
				if err := a.printJSON(viewOf(&e)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "only entries behind `CURSOR`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	return cmd
}
