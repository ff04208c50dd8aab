// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"os"

	"github.com/outlive-dev/outlive/internal/placement"
	"github.com/outlive-dev/outlive/shell/local"
)

// Service warns when a service manager would end commands with the service that starts
// them.
func Service() Check {
	mode, err := placement.ParseMode(os.Getenv(local.DetachEnv))
	if err != nil {
		return Failed("service", err)
	}
	return service(mode, placement.Look(context.Background(), mode == placement.Scope)) // bounded by itself
}

func service(mode placement.Mode, f placement.Facts) Check {
	d, err := placement.Decide(mode, f)
	switch {
	case err != nil:
		return Failed("service", err)
	case d.Warning != "":
		return warnf("service", "set KillMode=process in the unit, or OUTLIVE_DETACH=scope where systemd can be asked", "%s", d.Warning)
	case d.Prefix != nil:
		return okf("service", "commands get a scope of their own: they survive a restart of %s", orThis(f.Service))
	case f.Service != "":
		return okf("service", "runs inside %s with KillMode %s: commands survive its restart", f.Service, f.KillMode)
	}
	return okf("service", "commands do not belong to a service")
}

func orThis(unit string) string {
	if unit == "" {
		return "whatever starts them"
	}
	return unit
}
