// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package ssh runs commands on another machine that one can log in to with ssh.
// [Client] puts the calling program on the host and speaks with it in a session, so
// that commands outlive the link and the caller. [Shell] needs nothing there but a
// POSIX shell, and its commands end with the link.
//
// # Guarantees
//
//  1. What the host says of a run is the word of the supervisor there; a link that is
//     cut is never read as an exit or a timeout.
//  2. A [Client] gives the guarantees of package shell/remote: it is that protocol, and
//     its two ends, in a session instead of TCP.
//  3. A [Shell] stops its command when the link is cut, by a watchdog on the host that
//     reads the session's standard input to its end. It asks for no ssh signal.
//  4. A host whose key is not known, or has changed, gets nothing: no login, no command.
//     Nobody is asked for a password.
//  5. No text of a caller is in a line that a shell on the host parses: commands,
//     directories and environment go over standard input.
//
// # On the host
//
// The program is at ~/.cache/outlive/shim-SHA256, placed by sftp under another name
// and renamed. When it is executed it says its own checksum first: one that is not what
// its name says is placed again. In every session it connects its standard input and
// output with the one process that serves this user and version, through a socket in
// $XDG_STATE_HOME/outlive/ssh (else ~/.local/state/outlive/ssh), and starts that process
// when there is none. It ends itself when nobody has been connected for a minute and
// it holds nothing that would be lost; runs are under supervisors of their own and do
// not need it.
//
// The program calls [Main] before anything else in its main function, as for package
// shell/local.
//
// # Caveats
//
// The host must be Linux, and the program built for it. ~/.ssh/config and host
// certificates are not read. What [github.com/outlive-dev/outlive/shell/remote] says of
// the server's process holds for the one on the host.
package ssh
