// SPDX-License-Identifier: Apache-2.0

// Package pages has the pages of the console, a folder for each. New puts them together.
package pages

import (
	"github.com/scanyard/scanyard/console/internal/pages/boards"
	"github.com/scanyard/scanyard/console/internal/pages/exceptions"
	"github.com/scanyard/scanyard/console/internal/pages/findings"
	"github.com/scanyard/scanyard/console/internal/pages/images"
	"github.com/scanyard/scanyard/console/internal/pages/overview"
	"github.com/scanyard/scanyard/console/internal/pages/policies"
	"github.com/scanyard/scanyard/console/internal/pages/scans"
	"github.com/scanyard/scanyard/console/internal/pages/schedules"
	"github.com/scanyard/scanyard/console/internal/pages/search"
	"github.com/scanyard/scanyard/console/internal/pages/teams"
	"github.com/scanyard/scanyard/console/internal/web"
)

// New makes an App with all pages.
func New(o web.Options) (*web.App, error) {
	a, err := web.New(o)
	if err != nil {
		return nil, err
	}
	for _, register := range []func(*web.App) error{
		overview.Register, findings.Register, scans.Register, schedules.Register, images.Register, policies.Register, exceptions.Register,
		teams.Register, search.Register, boards.Register,
	} {
		if err := register(a); err != nil {
			return nil, err
		}
	}
	return a, nil
}
