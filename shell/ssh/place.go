// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/outlive-dev/outlive/fault"
)

const (
	cacheDir  = ".cache/outlive" // in the user's home, as sftp and the shell see it
	binPrefix = "shim-"
	keepOld   = 30 * 24 * time.Hour // for programs of other versions, and halves of one
)

// program is the program that is placed on hosts.
type program struct {
	path string
	sum  string // its SHA-256
}

// load reads the program once, for its sum.
func load(path string) (*program, error) {
	if path == "" {
		path = "/proc/self/exe" // also when the file was replaced meanwhile
		if runtime.GOOS != "linux" {
			return nil, fault.New(fault.Unsupported, "ssh: this program cannot run on the host, which is Linux").
				WithHint("Name one that can with ?exe=FILE.")
		}
	}
	sum, err := sumOf(path)
	if err != nil {
		return nil, fault.Newf(fault.Invalid, "ssh: the program for the host: %v", err)
	}
	return &program{path: path, sum: sum}, nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (p *program) file() string { return cacheDir + "/" + binPrefix + p.sum }

// place puts the program on the host: whole under its name, or not at all. Whether what
// is there is right is what it says itself when it is executed.
func (t *target) place(ctx context.Context, c *ssh.Client, p *program) error {
	st := t.begin(c)
	defer st.end()
	fs, err := sftp.NewClient(c, sftp.UseConcurrentWrites(true))
	if err != nil {
		return t.broken(ctx, c, "sftp", err, func(text string) *fault.Error {
			return fault.New(fault.Unsupported, text).WithHint(fmt.Sprintf(
				"outlive puts itself on the host by sftp. Where there is none, copy %s to ~/%s there, executable.", p.path, p.file()))
		})
	}
	defer fs.Close()
	if err := upload(fs, p, func() { st.progress(t.o.Patience) }); err != nil {
		return t.broken(ctx, c, "place the program on the host", err, func(text string) *fault.Error {
			return fault.New(fault.Unsupported, text)
		})
	}
	sweep(fs, p)
	return nil
}

func upload(fs *sftp.Client, p *program, progress func()) error {
	if err := fs.MkdirAll(cacheDir); err != nil {
		return fmt.Errorf("%s: %w", cacheDir, err)
	}
	if err := fs.Chmod(cacheDir, 0o700); err != nil {
		return fmt.Errorf("%s: %w", cacheDir, err)
	}
	tmp := cacheDir + "/" + binPrefix + rand.Text() + ".tmp"
	err := write(fs, tmp, p, progress)
	if err == nil {
		if _, atomic := fs.HasExtension("posix-rename@openssh.com"); atomic {
			err = fs.PosixRename(tmp, p.file())
		} else {
			_ = fs.Remove(p.file()) // a plain rename replaces nothing
			err = fs.Rename(tmp, p.file())
		}
	}
	if err != nil {
		_ = fs.Remove(tmp)
	}
	return err
}

func write(fs *sftp.Client, tmp string, p *program, progress func()) error {
	in, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := fs.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = out.ReadFrom(io.TeeReader(&ticking{in, progress}, sum))
	if err == nil {
		err = out.Chmod(0o700)
	}
	if _, ok := fs.HasExtension("fsync@openssh.com"); ok && err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.sum {
		return fmt.Errorf("%s has changed meanwhile", p.path)
	}
	return nil
}

// ticking tells of each read.
type ticking struct {
	r    io.Reader
	tick func()
}

// Read implements [io.Reader].
func (t *ticking) Read(b []byte) (int, error) {
	t.tick()
	return t.r.Read(b)
}

// sweep removes programs of long ago. A supervisor goes on without its file.
func sweep(fs *sftp.Client, p *program) {
	files, err := fs.ReadDir(cacheDir)
	if err != nil {
		return
	}
	for _, f := range files {
		name := cacheDir + "/" + path.Base(f.Name())
		if strings.HasPrefix(f.Name(), binPrefix) && name != p.file() && time.Since(f.ModTime()) > keepOld {
			_ = fs.Remove(name) // the next one tries again
		}
	}
}
