// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/shell/remote"
	"github.com/outlive-dev/outlive/shell/ssh"
	"github.com/outlive-dev/outlive/tool/command"
)

const schemeSSH = "ssh://"

// far is a host of an SSH backend that was reached.
type far struct {
	url    string
	client *ssh.Client
	ssh.Host
}

// reach refuses what is no backend's URL, or a host that does not let us in, before a
// task is made. It returns nil unless the backend is a host of its own.
func reach(ctx context.Context, url string) (*far, error) {
	switch {
	case url == "":
		return nil, nil
	case !strings.HasPrefix(url, schemeSSH):
		b, err := remote.Dial(url, nil)
		if err != nil {
			return nil, err
		}
		return nil, b.Close()
	}
	c, err := ssh.Dial(url, nil)
	if err != nil {
		return nil, err
	}
	h, err := c.Connect(ctx)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &far{url: url, client: c, Host: h}, nil
}

// dir is a directory there: that of the URL, unless --cwd names another one.
func (f *far) dir(cwd string) string {
	if path.IsAbs(cwd) {
		return cwd
	}
	return path.Join(f.Dir, cwd)
}

// environ is the environment of a command there: the host's own, what this process's
// says of anything but this machine, the caller's terminal, and what was asked for.
func (f *far) environ(clean, tty bool, more []string) []string {
	env := shell.CleanEnviron(f.Environ, tty)
	if !clean {
		env = host.Overlay(env, portable(os.Environ()))
	}
	if t := os.Getenv("TERM"); tty && t != "" {
		env = append(env, "TERM="+t)
	}
	return host.Overlay(env, more)
}

// portable leaves out what says something of this machine, or of this login.
func portable(environ []string) []string {
	own := map[string]bool{}
	for _, kv := range shell.CleanEnviron(environ, true) {
		name, _, _ := strings.Cut(kv, "=")
		own[name] = true
	}
	for _, name := range []string{"TERM", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "MAIL", "DISPLAY", "LS_COLORS"} {
		own[name] = true
	}
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !own[name] && !slices.ContainsFunc([]string{"SSH_", "XDG_", "DBUS_", "LD_", "WAYLAND_", "OUTLIVE_"}, begins) {
			out = append(out, kv)
		}
	}
	return out
}

// openBackend opens a backend by its runs directory, or its URL.
func (a *app) openBackend(place string) (shell.Recoverable, error) {
	switch {
	case a.far != nil && a.far.url == place:
		return a.far.client, nil
	case strings.HasPrefix(place, schemeSSH):
		return ssh.Dial(place, nil)
	case command.IsURL(place):
		return remote.Dial(place, nil)
	default:
		return local.Open(place, nil)
	}
}
