// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/outlive-dev/outlive/fault"
)

// TokenEnv is the environment variable that names the token when it is in no file.
const TokenEnv = "OUTLIVE_BACKEND_TOKEN"

// NewToken returns a token that cannot be guessed.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// TokenDir returns the directory in which servers of this user note their tokens.
func TokenDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil || home == "" {
			return "", fault.New(fault.Invalid, "find the token: no home directory").WithHint("Set " + TokenEnv + ".")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "outlive", "sandboxd"), nil
}

// tokenFile names the note of the server at an address.
func tokenFile(dir, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = addr, ""
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	host = strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator {
			return '_'
		}
		return r
	}, host)
	return filepath.Join(dir, strings.ReplaceAll(host, ":", "-")+"_"+port+".token")
}

// SaveToken notes the token of the server at addr, for this user alone, and returns
// the file. An address is noted for as long as somebody serves it: remove the file
// when that ends.
func SaveToken(dir, addr, token string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("save token: %w", err)
	}
	path := tokenFile(dir, addr)
	f, err := os.CreateTemp(dir, ".token-") // mode 0600
	if err != nil {
		return "", fmt.Errorf("save token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("save token: %w", err)
	}
	return path, nil
}

// findToken returns the token for the server at addr.
func findToken(o Options, addr string) (string, error) {
	if o.Token != "" {
		return o.Token, nil
	}
	dir, err := o.TokenDir, error(nil)
	if dir == "" {
		dir, err = TokenDir()
	}
	if err == nil {
		b, rerr := os.ReadFile(tokenFile(dir, addr))
		if rerr == nil {
			return strings.TrimSpace(string(b)), nil
		}
		if !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}
	if t := os.Getenv(TokenEnv); t != "" {
		return t, nil
	}
	if err == nil {
		err = fault.Newf(fault.Forbidden, "no token for the backend at %s", addr).
			WithHint("Start outlive sandboxd there as the same user, or set " + TokenEnv + ".")
	}
	return "", err
}
