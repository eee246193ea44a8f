// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/details"
	"github.com/scanyard/scanyard/reports/internal/findingqueries"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/metrics"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/upkeep"
)

// keepFlags say what is kept, and for how long.
type keepFlags struct {
	daily, firstSeen time.Duration
	maxAge           map[string]string
	namespaceBytes   int64
	markExceptions   bool
}

func (k *keepFlags) bind(flags *pflag.FlagSet) {
	flags.DurationVar(&k.daily, "daily-keep", upkeep.DefaultKeep, "how long the numbers of each day are kept")
	flags.DurationVar(&k.firstSeen, "first-seen-keep", upkeep.DefaultKeep, "how long is kept when a finding was seen first, after it was seen last")
	flags.StringToStringVar(
		&k.maxAge, "max-age", nil,
		"age at which objects of a `kind=duration` are deleted, for reports, clusterreports, images, sboms, vulnerabilityreports; by default none are",
	)
	flags.BoolVar(
		&k.markExceptions, "mark-exceptions", false,
		"have stored reports follow FindingExceptions and ClusterFindingExceptions; the server must be allowed to list and watch them",
	)
	flags.Int64Var(&k.namespaceBytes, "namespace-bytes", 0, "bytes that the objects of one namespace may have; 0 means no bound")
}

func (k *keepFlags) validate() error {
	var errs []error
	if k.daily <= 0 || k.firstSeen <= 0 {
		errs = append(errs, errors.New("--daily-keep and --first-seen-keep must be positive"))
	}
	if k.namespaceBytes < 0 {
		errs = append(errs, errors.New("--namespace-bytes must be positive, or 0"))
	}
	for name := range k.maxAge {
		if _, err := k.maxAgeOf(name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// maxAgeOf is the greatest age of a kind, 0 if it has none.
func (k *keepFlags) maxAgeOf(name string) (time.Duration, error) {
	text, ok := k.maxAge[name]
	if !ok {
		return 0, nil
	}
	for _, stored := range kinds.AllStored {
		if stored.Resource != name {
			continue
		}
		age, err := time.ParseDuration(text)
		if err != nil || age <= 0 {
			return 0, fmt.Errorf("--max-age %s=%s: must be a positive duration, such as 720h", name, text)
		}
		return age, nil
	}
	return 0, fmt.Errorf("--max-age %s=%s: there is no such kind", name, text)
}

// virtual returns what makes the kinds that are created and not stored. Upkeep and marks begin with them: all need the storages.
func (k *keepFlags) virtual(
	database sqldb.Config, replica *mvcc.Replica, sqliteFile string, watched *metrics.Metrics, followed *exceptions, warmer *findingqueries.Warmer,
) func(server.Deps) (map[string]rest.Storage, error) {
	return func(deps server.Deps) (map[string]rest.Storage, error) {
		names := map[int64]string{}
		config := upkeep.Config{Store: deps.Store, DailyKeep: k.daily, FirstSeenKeep: k.firstSeen, Reports: kinds.VulnerabilityReportNumber}
		for _, stored := range kinds.AllStored {
			names[int64(stored.Number)] = stored.Resource
			age, err := k.maxAgeOf(stored.Resource)
			if err != nil {
				return nil, err
			}
			config.Aging = append(config.Aging, upkeep.Kind{Number: stored.Number, MaxAge: age, Storage: deps.Storage(stored.Resource), New: stored.New})
		}
		upkeep.New(config)
		followed.bind(deps)
		watched.Watch(deps.Store, names, clock.RealClock{})
		var asked answer.Database = deps.Store
		if replica != nil {
			asked = replica
		}
		questions, clusterQuestions := findingqueries.New(findingqueries.Config{
			Answerer: &answer.Answerer{
				Database: asked, Driver: database.Driver, Details: details.Read(deps.Store), Aliases: details.Aliases(deps.Store), Image: kinds.ImageNumber,
				Kinds: []answer.Kind{
					{Number: kinds.ReportNumber, Name: "PolicyReport", Word: "reports"},
					{Number: kinds.ClusterReportNumber, Name: "ClusterPolicyReport", Word: "reports"},
					{Number: kinds.VulnerabilityReportNumber, Name: "VulnerabilityReport", Word: "vulnerabilityreports"},
				},
			},
			Observer: watched, Revision: deps.Store.Current, Warmer: warmer,
		})
		return map[string]rest.Storage{
			"findingqueries": questions, "clusterfindingqueries": clusterQuestions, "reportimports": newImports(deps, sqliteFile),
		}, nil
	}
}

// migrate brings the schema up to date and says which it is.
func migrate(ctx context.Context, out io.Writer, database sqldb.Config) error {
	version, err := sqldb.Migrate(ctx, database)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The schema is %d.\n", version)
	return err
}
