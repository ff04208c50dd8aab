// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import "context"

// Server is what there is to know of a store's server.
type Server struct {
	Version string
	Bytes   int64    // of the store's tables, with their indexes
	Unsafe  []string // settings with which a crash of its host loses what was acknowledged
}

// Server asks the server.
func (s *Store) Server(ctx context.Context) (srv Server, err error) {
	err = s.look(ctx, func(v *view) error {
		return v.read(
			query{
				sql: `SELECT current_setting('server_version'), (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class AS c
					WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'outlive_meta'::regclass) AND c.relname LIKE 'outlive\_%' AND c.relkind = 'r')`,
				scan: func(r row) error {
					srv.Version, srv.Bytes = r.text(0), r.int(1)
					return nil
				},
			},
			query{
				sql: `SELECT name || ' = ' || setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name`,
				scan: func(r row) error {
					srv.Unsafe = append(srv.Unsafe, r.text(0))
					return nil
				},
			},
		)
	})
	return srv, err
}
