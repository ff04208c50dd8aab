// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/store"
)

// completion adds the library's command that prints completion scripts, with the usage
// errors of the others.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Print the script that completes commands, flags and ids in a shell"
		c.Example = "  source <(outlive completion bash)\n  outlive completion fish | source"
		c.Long = ""
		c.DisableFlagsInUseLine = true
		c.Args, c.RunE = words(0, 0), func(c *cobra.Command, _ []string) error { return c.Help() }
	}
}

// completeIDs completes the newest tasks of the store, by name or by the end of the
// id, for the first most words (all when it is negative).
func (a *app) completeIDs(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		if most >= 0 && len(args) >= most || a.open(cmd.Context()) != nil {
			return nil, none
		}
		recs, err := a.rt.List(cmd.Context(), store.Filter{})
		if err != nil {
			return nil, none
		}
		var out []cobra.Completion
		for i := range recs {
			r := &recs[i]
			about := stateWord(r) + "  " + cutTo(describe(r), 60)
			for _, word := range []string{r.Name, shortID(r.ID), string(r.ID)} {
				if word != "" && strings.HasPrefix(word, typed) && !slices.Contains(args, word) {
					out = append(out, cobra.CompletionWithDesc(word, about))
					break
				}
			}
		}
		return out, none | cobra.ShellCompDirectiveKeepOrder
	}
}
