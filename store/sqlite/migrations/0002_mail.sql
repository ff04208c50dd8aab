-- Tickets, sessions, messages on their way out, and an argument for timers.

CREATE TABLE outlive_ticket (
  task TEXT NOT NULL,
  id   TEXT NOT NULL,
  body BLOB NOT NULL, -- JSON
  PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE outlive_session (
  id   TEXT PRIMARY KEY,
  body BLOB NOT NULL -- JSON
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
CREATE INDEX outlive_delivery_order ON outlive_delivery (target, at, seq, id);
CREATE INDEX outlive_delivery_due ON outlive_delivery (due, target, id) WHERE due IS NOT NULL;

ALTER TABLE outlive_timer ADD COLUMN arg TEXT NOT NULL DEFAULT '';

CREATE INDEX outlive_task_held ON outlive_task (parent) WHERE r_epoch = -1;
CREATE INDEX outlive_invocation_expires ON outlive_invocation (expires);
