# Copyright 2026 The outlive authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs one command for Shell, in a POSIX shell on the host. Standard input says what, one
# escaped value a line, up to the line "go"; its end after that stops the command. The
# command's output goes to standard output, marked lines on standard error say what
# becomes of it. Every name here begins with _o_, for the command's environment is made
# in the same shell.

_o_say() { echo "@outlive $*" >&3; }
# Where /proc tells, the processes that left the command's group are found, too.
_o_left() { grep -l "OUTLIVE_RUN=$_o_id" /proc/[0-9]*/environ | sed 's|/proc/\(.*\)/environ|\1|'; }
_o_alive() { kill -0 -- "-$_o_p" || [ -n "$(_o_left)" ]; }
_o_kill() {
	kill -s "$1" -- "-$_o_p" || kill -s "$1" "$_o_p"
	for _o_v in $(_o_left); do kill -s "$1" "$_o_v"; done
	[ "$1" != TERM ] || _o_kill CONT # one that is stopped has to hear of it
}
_o_sleep() { sleep "$1" & _o_s=$!; wait "$_o_s"; }
# Waits for so many ticks, or until what is given fails.
_o_while() {
	_o_i=$1
	shift
	while [ "$_o_i" -gt 0 ] && "$@"; do
		_o_sleep "$_o_tick"
		_o_i=$((_o_i - 1))
	done
}
# Of several ways to end the first is taken down, and counts.
_o_first() { echo "$1" >"$_o_D/$1" && ln "$_o_D/$1" "$_o_D/cause"; }
_o_stop() {
	_o_first "$1" || return
	[ "$_o_grace" = 0 ] || { _o_kill TERM; _o_while "$_o_grace" kill -0 "$_o_p"; }
	_o_kill KILL
}
# What a watcher waits with ends with it.
_o_watched() { _o_s=; trap '[ -z "$_o_s" ] || kill "$_o_s"; exit 0' TERM; }

_o_u=$(umask)
umask 077
_o_D=$(mktemp -d "${TMPDIR:-/tmp}/outlive-XXXXXXXXXX") || exit 1
trap 'rm -rf "$_o_D"' EXIT
_o_id= _o_dir=/ _o_limit= _o_grace=20 _o_drain=5 _o_tick=0.1 _o_keep= _o_in= _o_whole= _o_env=0
set --
while :; do
	IFS=' ' read -r _o_k _o_x _o_y || exit 1
	case $_o_k in
	id) _o_id=$_o_x ;;
	text) printf %b "$_o_x" >"$_o_D/cmd" ;;
	arg) _o_v=$(printf %bx "$_o_x"); set -- "$@" "${_o_v%x}" ;;
	dir) _o_v=$(printf %bx "$_o_x"); _o_dir=${_o_v%x} ;;
	env) _o_env=$((_o_env + 1)); eval "_o_k_$_o_env=\$_o_x _o_v_$_o_env=\$_o_y" ;;
	whole) _o_whole=1 ;;
	in) printf %b "$_o_x" >"$_o_D/in"; _o_in=1 ;;
	umask) _o_u=$_o_x ;;
	limit) _o_limit=$_o_x ;;
	grace) _o_grace=$_o_x ;;
	drain) _o_drain=$_o_x ;;
	keep) _o_keep=1 ;;
	go) break ;;
	*) exit 1 ;;
	esac
done
exec 3>&2 4<&0 </dev/null 2>/dev/null
if ! sleep 0.01; then # whole seconds only
	_o_tick=1 _o_drain=$(((_o_drain + 9) / 10)) _o_grace=$(((_o_grace + 9) / 10))
	[ -z "$_o_limit" ] || _o_limit=$((${_o_limit%%.*} + 1))
fi
_o_setsid=$(command -v setsid) || set -m
[ -z "$_o_limit" ] || mkfifo "$_o_D/gate" || exit 1

(
	exec 4<&-
	umask "$_o_u"
	cd -- "$_o_dir" || { _o_say failed 126 dir; exit 126; }
	for _o_n in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
		case $_o_whole$_o_n in
		PATH | HOME | USER | LOGNAME | SHELL | TMPDIR | TZ | LANG | LC_*) ;;
		HTTP_PROXY | HTTPS_PROXY | FTP_PROXY | ALL_PROXY | NO_PROXY) ;;
		http_proxy | https_proxy | ftp_proxy | all_proxy | no_proxy) ;;
		*) unset "$_o_n" ;;
		esac
	done
	_o_i=0
	while [ "$_o_i" -lt "$_o_env" ]; do
		_o_i=$((_o_i + 1))
		eval "_o_n=\$_o_k_$_o_i _o_x=\$_o_v_$_o_i"
		_o_v=$(printf %bx "$_o_x")
		export "$_o_n=${_o_v%x}"
	done
	_o_code=127
	_o_try() {
		[ -e "$1" ] || return 1
		[ -f "$1" ] && [ -x "$1" ] && { _o_f=$1; return 0; }
		_o_code=126
		return 1
	}
	_o_find() {
		case $1 in
		*/*) _o_try "$1"; return ;;
		esac
		set -f
		IFS=:
		for _o_v in $PATH; do _o_try "${_o_v:-.}/$1" && break; done
		_o_ok=$?
		unset IFS
		set +f
		return "$_o_ok"
	}
	if [ $# -gt 0 ]; then
		_o_find "$1" || { _o_say failed "$_o_code" program; exit "$_o_code"; }
		for _o_v; do
			[ ! -e /proc/self ] || [ ${#_o_v} -le 131071 ] || { _o_say failed 126 long; exit 126; }
		done
		IFS=' ' read -r _o_v _o_x <"$_o_f"
		case $_o_v in
		'#!'?*) _o_v=${_o_v#??} ;;
		'#!') _o_v=${_o_x%% *} ;;
		*) _o_v=/ ;;
		esac
		[ -x "$_o_v" ] || { _o_say failed 126 program; exit 126; }
	else
		set -- sh "$_o_D/cmd"
		_o_find bash && set -- "$_o_f" "$_o_D/cmd"
	fi
	if [ -n "$_o_in" ]; then
		exec <"$_o_D/in"
		rm -f "$_o_D/in"
	fi
	_o_say started
	[ -z "$_o_limit" ] || echo >"$_o_D/gate" # the clock starts
	exec 2>&1 3>&-
	exec $_o_setsid "$@"
) &
_o_p=$!
(
	while IFS= read -r _o_x <&4; do :; done
	_o_watched
	_o_stop canceled
) >/dev/null 3>&- &
_o_w=$!
if [ -n "$_o_limit" ]; then
	(
		read -r _o_x <"$_o_D/gate"
		_o_watched
		_o_sleep "$_o_limit"
		_o_stop timed_out
	) >/dev/null 3>&- 4<&- &
	_o_w="$_o_w $!"
fi
exec 4<&-
wait "$_o_p"
_o_rc=$?
trap '' PIPE # nobody may listen any more
_o_first exited
_o_c=$(cat "$_o_D/cause")
kill $_o_w
[ "$_o_c" = exited ] || _o_keep= # a stop ends them all
[ "$_o_c" != exited ] || [ -n "$_o_keep" ] || _o_while "$_o_drain" _o_alive
_o_n=$(_o_left | wc -l)
if [ -z "$_o_keep" ]; then
	[ "$_o_c" != exited ] || [ "$_o_grace" = 0 ] || ! _o_alive || { _o_kill TERM; _o_while "$_o_grace" _o_alive; }
	_o_i=50
	while [ "$_o_i" -gt 0 ] && _o_alive; do
		_o_kill KILL
		_o_i=$((_o_i - 1))
	done
fi
_o_say end "$_o_c" "$_o_rc" $_o_n
exit 0
