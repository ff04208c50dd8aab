-- Ids and texts are bytes (bytea): any byte may be in them, and they compare byte by
-- byte. No statement runs in the hot path that touches a row which all instances share.

CREATE TABLE outlive_meta (
  one   boolean     PRIMARY KEY CHECK (one),
  id    text        NOT NULL, -- the incarnation
  epoch bigint      NOT NULL, -- of new entries; a restore bumps it
  clock timestamptz NOT NULL  -- no commit's time is before it; follows within a second
);

-- One row for each commit of late: by it an answer that was lost is found again, and
-- those who do not listen see that something changed.
CREATE TABLE outlive_commit (
  origin bigint      NOT NULL, -- who committed
  n      bigint      NOT NULL,
  at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  xid    xid8        NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (origin, n)
);
CREATE INDEX outlive_commit_xid ON outlive_commit (xid);

-- body is the whole record as JSON. The columns hold only what queries look inside; a
-- group of columns is NULL unless the task is in that condition, so that each index
-- holds only the tasks it is for.
CREATE TABLE outlive_task (
  p_prio   bigint,           -- pending: its priority (the smallest when it is only to be stopped)
  p_due    timestamptz,      -- when it is due
  r_epoch  bigint,           -- running: the epoch of its lease; -1 for a parent's task
  consumed bigint  NOT NULL, -- the input it has consumed
  live     boolean NOT NULL, -- until the task has ended
  parked   boolean,          -- true: waiting or suspended
  id       bytea   PRIMARY KEY,
  state    bytea   NOT NULL,
  name     bytea,
  parent   bytea,
  session  bytea,
  queue    bytea,
  ckey     bytea,
  p_exec   bytea,            -- pending: its executor
  r_worker bytea,            -- running: its worker, empty when it has none
  r_queue  bytea,            -- running in that queue
  r_ckey   bytea,            -- running with that concurrency key
  body     bytea   NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX outlive_task_pending ON outlive_task (p_exec, p_prio, p_due, id) WHERE p_exec IS NOT NULL;
CREATE INDEX outlive_task_running ON outlive_task (r_worker, r_epoch, id) WHERE r_worker IS NOT NULL;
CREATE INDEX outlive_task_parked ON outlive_task (id) WHERE parked IS NOT NULL;
CREATE INDEX outlive_task_queue ON outlive_task (r_queue) WHERE r_queue IS NOT NULL;
CREATE INDEX outlive_task_ckey ON outlive_task (r_ckey) WHERE r_ckey IS NOT NULL;
CREATE INDEX outlive_task_name ON outlive_task (name, live, id) WHERE name IS NOT NULL;
CREATE INDEX outlive_task_parent ON outlive_task (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX outlive_task_held ON outlive_task (parent) WHERE r_epoch = -1;
CREATE INDEX outlive_task_session ON outlive_task (session, id) WHERE session IS NOT NULL;

-- How many tasks came into a state, or left it; the sum is their number. Commits add
-- rows, and rows are added up now and then: none is changed in the hot path, so that
-- old versions which a long snapshot keeps are in nobody's way.
CREATE TABLE outlive_count (
  tasks bigint NOT NULL,
  state bytea  NOT NULL
);

-- Entries lie in the order they were appended, all streams mixed.
CREATE TABLE outlive_entry (
  seq     bigint      NOT NULL,
  epoch   bigint      NOT NULL,
  at      timestamptz NOT NULL,
  attempt bigint      NOT NULL,
  final   boolean     NOT NULL,
  stream  bytea       NOT NULL,
  kind    bytea       NOT NULL,
  task    bytea,                -- NULL: the stream's own id
  event   bytea,
  part    bytea,
  media   bytea,
  data    bytea,
  PRIMARY KEY (stream, seq)
);
CREATE INDEX outlive_entry_part ON outlive_entry (stream, event, part) WHERE part IS NOT NULL;

-- What is known of an event's parts.
CREATE TABLE outlive_event (
  bytes  bigint  NOT NULL,
  parts  bigint  NOT NULL,
  final  boolean NOT NULL,
  stream bytea   NOT NULL,
  event  bytea   NOT NULL,
  part   bytea   NOT NULL,
  PRIMARY KEY (stream, event)
) WITH (fillfactor = 80);

CREATE TABLE outlive_input (
  seq      bigint      NOT NULL,
  at       timestamptz NOT NULL,
  task     bytea       NOT NULL,
  id       bytea       NOT NULL,
  kind     bytea       NOT NULL,
  media    bytea       NOT NULL,
  data     bytea,
  delivery bytea       NOT NULL,
  ticket   bytea       NOT NULL,
  sender   bytea       NOT NULL,
  PRIMARY KEY (task, id)
);
CREATE INDEX outlive_input_seq ON outlive_input (task, seq);

CREATE TABLE outlive_worker (
  id   bytea PRIMARY KEY,
  body bytea NOT NULL -- JSON
) WITH (fillfactor = 50);

CREATE TABLE outlive_invocation (
  expires timestamptz NOT NULL,
  key     bytea       PRIMARY KEY,
  task    bytea       NOT NULL,
  digest  bytea       NOT NULL
);
CREATE INDEX outlive_invocation_expires ON outlive_invocation (expires, key);

CREATE TABLE outlive_queue (
  name bytea PRIMARY KEY,
  body bytea NOT NULL -- JSON
);

CREATE TABLE outlive_observer (
  epoch  bigint,         -- NULL unless bound to a lease
  task   bytea NOT NULL,
  id     bytea NOT NULL,
  worker bytea,
  body   bytea NOT NULL, -- JSON
  PRIMARY KEY (task, id)
);
CREATE INDEX outlive_observer_lease ON outlive_observer (worker, epoch, task, id) WHERE worker IS NOT NULL;

CREATE TABLE outlive_timer (
  due     timestamptz NOT NULL,
  kind    bytea       NOT NULL,
  subject bytea       NOT NULL,
  arg     bytea       NOT NULL,
  PRIMARY KEY (kind, subject)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX outlive_timer_due ON outlive_timer (due, kind, subject);

CREATE TABLE outlive_ticket (
  task bytea NOT NULL,
  id   bytea NOT NULL,
  body bytea NOT NULL, -- JSON
  PRIMARY KEY (task, id)
);

CREATE TABLE outlive_session (
  id   bytea PRIMARY KEY,
  body bytea NOT NULL -- JSON
) WITH (fillfactor = 80);

CREATE TABLE outlive_delivery (
  at     timestamptz NOT NULL,
  seq    bigint      NOT NULL,
  due    timestamptz,          -- NULL: not offered
  target bytea       NOT NULL,
  id     bytea       NOT NULL,
  body   bytea       NOT NULL, -- JSON
  PRIMARY KEY (target, id)
);
CREATE INDEX outlive_delivery_order ON outlive_delivery (target, at, seq, id);
CREATE INDEX outlive_delivery_due ON outlive_delivery (due, target, id) WHERE due IS NOT NULL;
