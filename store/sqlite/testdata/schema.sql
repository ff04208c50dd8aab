CREATE TABLE outlive_count (
  state TEXT    PRIMARY KEY,
  tasks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE outlive_delivery (
  target TEXT    NOT NULL,
  id     TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  due    INTEGER,          -- NULL: not offered
  body   BLOB    NOT NULL, -- JSON
  PRIMARY KEY (target, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX outlive_delivery_due ON outlive_delivery (due, target, id) WHERE due IS NOT NULL;

CREATE INDEX outlive_delivery_order ON outlive_delivery (target, at, seq, id);

CREATE TABLE outlive_entry (
  n       INTEGER PRIMARY KEY,
  stream  TEXT    NOT NULL,
  seq     INTEGER NOT NULL,
  epoch   INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  kind    TEXT    NOT NULL,
  task    TEXT,             -- NULL: the stream's own id
  attempt INTEGER NOT NULL,
  event   TEXT,
  part    TEXT,
  final   INTEGER NOT NULL,
  media   TEXT,
  data    BLOB
) STRICT;

CREATE INDEX outlive_entry_part ON outlive_entry (stream, event, part) WHERE part IS NOT NULL;

CREATE UNIQUE INDEX outlive_entry_seq ON outlive_entry (stream, seq);

CREATE TABLE outlive_event (
  stream TEXT    NOT NULL,
  event  TEXT    NOT NULL,
  part   TEXT    NOT NULL,
  bytes  INTEGER NOT NULL,
  final  INTEGER NOT NULL,
  parts  INTEGER NOT NULL,
  PRIMARY KEY (stream, event)
) STRICT, WITHOUT ROWID;

CREATE TABLE outlive_input (
  task     TEXT    NOT NULL,
  seq      INTEGER NOT NULL,
  id       TEXT    NOT NULL,
  at       INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  media    TEXT    NOT NULL,
  data     BLOB,
  delivery TEXT    NOT NULL,
  ticket   TEXT    NOT NULL,
  sender   TEXT    NOT NULL,
  PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX outlive_input_seq ON outlive_input (task, seq);

CREATE TABLE outlive_invocation (
  key     TEXT    PRIMARY KEY,
  task    TEXT    NOT NULL,
  digest  TEXT    NOT NULL,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX outlive_invocation_expires ON outlive_invocation (expires);

CREATE TABLE outlive_meta (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  id     TEXT    NOT NULL, -- the incarnation
  epoch  INTEGER NOT NULL, -- of new entries; a restore bumps it
  clock  INTEGER NOT NULL, -- the newest commit's time
  writes INTEGER NOT NULL  -- commits so far: tells a process that another one wrote
) STRICT;

CREATE TABLE outlive_migrations (
  version INTEGER PRIMARY KEY,
  name    TEXT    NOT NULL,
  sum     TEXT    NOT NULL,
  at      INTEGER NOT NULL
) STRICT;

CREATE TABLE outlive_observer (
  task   TEXT NOT NULL,
  id     TEXT NOT NULL,
  worker TEXT,          -- NULL unless bound to a lease
  epoch  INTEGER,
  body   BLOB NOT NULL, -- JSON
  PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX outlive_observer_lease ON outlive_observer (worker, epoch) WHERE worker IS NOT NULL;

CREATE TABLE outlive_queue (
  name TEXT PRIMARY KEY,
  body BLOB NOT NULL -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE outlive_session (
  id   TEXT PRIMARY KEY,
  body BLOB NOT NULL -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE outlive_task (
  n        INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  state    TEXT    NOT NULL,
  name     TEXT,
  parent   TEXT,
  session  TEXT,
  queue    TEXT,
  live     INTEGER NOT NULL, -- 1 until the task has ended
  p_exec   TEXT,             -- pending: its executor,
  p_prio   INTEGER,          -- its priority (the smallest when it is only to be stopped)
  p_due    INTEGER,          -- and when it is due
  r_worker TEXT,             -- running: its worker, '' when it has none,
  r_epoch  INTEGER,          -- and the lease's epoch; -1 for a parent's task
  r_queue  TEXT,             -- running in that queue
  r_ckey   TEXT,             -- running with that concurrency key
  parked   INTEGER,          -- 1: waiting or suspended
  body     BLOB    NOT NULL
) STRICT;

CREATE INDEX outlive_task_ckey ON outlive_task (r_ckey) WHERE r_ckey IS NOT NULL;

CREATE INDEX outlive_task_held ON outlive_task (parent) WHERE r_epoch = -1;

CREATE INDEX outlive_task_name ON outlive_task (name, live, id) WHERE name IS NOT NULL;

CREATE INDEX outlive_task_parent ON outlive_task (parent, id) WHERE parent IS NOT NULL;

CREATE INDEX outlive_task_parked ON outlive_task (id) WHERE parked IS NOT NULL;

CREATE INDEX outlive_task_pending ON outlive_task (p_exec, p_prio, p_due, id) WHERE p_exec IS NOT NULL;

CREATE INDEX outlive_task_queue ON outlive_task (r_queue) WHERE r_queue IS NOT NULL;

CREATE INDEX outlive_task_running ON outlive_task (r_worker, r_epoch, id) WHERE r_worker IS NOT NULL;

CREATE INDEX outlive_task_session ON outlive_task (session, id) WHERE session IS NOT NULL;

CREATE TABLE outlive_ticket (
  task TEXT NOT NULL,
  id   TEXT NOT NULL,
  body BLOB NOT NULL, -- JSON
  PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE outlive_timer (
  kind    TEXT    NOT NULL,
  subject TEXT    NOT NULL,
  due     INTEGER NOT NULL, arg TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;

CREATE INDEX outlive_timer_due ON outlive_timer (due, kind, subject);

CREATE TABLE outlive_worker (
  id   TEXT PRIMARY KEY,
  body BLOB NOT NULL -- JSON
) STRICT, WITHOUT ROWID;

