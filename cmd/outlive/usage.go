// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/fault"
)

// words checks the number of a command's words: at least least, at most most (none
// when it is negative).
func words(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("a word is missing").withHint(cmd.UseLine())
		case most == 0 && len(args) > 0 && cmd.HasSubCommands():
			return unknownCommand(cmd, args[0])
		case most >= 0 && len(args) > most:
			return usagef("unexpected word %q", args[most]).withHint(cmd.UseLine())
		}
		return nil
	}
}

func unknownCommand(cmd *cobra.Command, word string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	err := usagef("unknown command %q", word)
	if n := text.Nearest(word, known); n != "" {
		return err.withHint("did you mean " + cmd.CommandPath() + " " + n + "?")
	}
	return err.withHint(cmd.CommandPath() + " --help lists the commands")
}

// flagError is what is wrong with a flag, with the nearest known one.
func flagError(cmd *cobra.Command, err error) error {
	out := &coded{code: exitUsage, err: fault.New(fault.Invalid, err.Error())}
	var none *pflag.NotExistError
	if !errors.As(err, &none) {
		return out.withHint(cmd.CommandPath() + " --help explains the flags")
	}
	var known []string
	each := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	cmd.LocalFlags().VisitAll(each)
	cmd.InheritedFlags().VisitAll(each)
	if n := text.Nearest(none.GetSpecifiedName(), known); n != "" {
		return out.withHint("did you mean --" + n + "?")
	}
	return out.withHint(cmd.CommandPath() + " --help lists the flags")
}

// color wraps text in an SGR code when people look at it and have not asked for none.
func (a *app) color(code, text string) string {
	if text == "" || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(a.out.Fd())) {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", code, text)
}

// SGR codes.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)
