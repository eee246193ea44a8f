// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

func newDescribeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a Registry: what it has, what waits and why, and what to do",
		Long: `Show a Registry: its images and vulnerabilities, its conditions, the jobs that run, what they wait
for, and what to do.`,
		Example: `  {{program}} registry describe prod`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error { return describe(cmd.Context(), s, args[0]) },
	}
}

func describe(ctx context.Context, s *session.Session, name string) error {
	c, registry, err := find(ctx, s, name)
	if err != nil {
		return err
	}
	jobs, err := jobsOf(ctx, c, registry)
	if err != nil {
		return explain(s, err)
	}
	w := output.NewWrapped(s, s.Out)
	fieldsOf(s, w, registry)
	for _, condition := range registry.Status.Conditions {
		text := string(condition.Status) + suffix(", ", condition.Reason) + suffix(": ", termsafe.Line(condition.Message))
		w.Field(condition.Type, text)
	}
	for _, warning := range registry.Status.Warnings {
		examples := suffix(": ", termsafe.Line(strings.Join(warning.Examples, ", ")))
		w.Field("Warning", fmt.Sprintf("%s, %d times%s", warning.Code, warning.Count, examples))
	}
	for _, job := range jobs {
		w.Field("Job", kindOf(job)+"/"+job.GetName()+"  "+lineOf(job, s.Now()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, advice := range adviceOf(s, registry) {
		fmt.Fprintf(s.Out, "%s %s\n", s.Paint(session.Note, "→"), advice)
	}
	return nil
}

// fieldsOf prints what a Registry says and has.
func fieldsOf(s *session.Session, w *output.Wrapped, registry *registryv1alpha1.Registry) {
	spec, status, now := &registry.Spec, &registry.Status, s.Now()
	w.Field("Registry", registry.Namespace+"/"+registry.Name)
	w.Field("URL", spec.URL)
	w.Field("Repositories", cmp.Or(strings.Join(spec.Repositories, ", "), "all of the catalogue"))
	w.Field("Platforms", cmp.Or(strings.Join(spec.Platforms, ", "), "all"))
	w.Field("Looks for images", how(string(spec.DiscoveryPeriod), string(spec.DiscoverySchedule))+suffix(", next ", stamp(status.NextDiscoveryTime, now)))
	w.Field("Looks again", how(string(spec.ScanPeriod), string(spec.ScanSchedule))+suffix(", next ", stamp(status.NextScanTime, now)))
	if i := status.Images; i != nil {
		bad := fmt.Sprintf("%d failed, %d quarantined, %d skipped", i.Failed, i.Quarantined, i.Skipped)
		w.Field("Images", fmt.Sprintf("%d: %d scanned, %d waiting, %s", i.Present, i.Scanned, i.Waiting, bad))
	}
	if v := status.Vulnerabilities; v != nil {
		text := inWords([]int64{v.Critical, v.High, v.Medium, v.Low, v.Unknown})
		w.Field("Vulnerabilities", fmt.Sprintf("%s; %d fixable, %d suppressed", text, v.Fixable, v.Suppressed))
	}
	if last := status.LastDiscovery; last != nil {
		w.Field("Last discovery", last.Result+suffix(", ", stamp(last.Time, now)))
	}
	if last := status.LastScan; last != nil {
		w.Field("Last scan", last.Result+suffix(", ", stamp(last.Time, now)))
	}
	if d := status.Database; d != nil {
		w.Field("Good for data", d.Name+" "+short(d.Version)+suffix(", built ", stamp(d.BuiltAt, now)))
	}
	if r := status.RateLimit; r != nil {
		remaining := ""
		if r.Remaining != nil {
			remaining = fmt.Sprintf(", %d requests left", *r.Remaining)
		}
		w.Field("Rate limit", r.Host+remaining+suffix(", ends ", stamp(r.ResetTime, now)))
	}
}

// how says how often something is done.
func how(period, schedule string) string {
	switch {
	case period != "":
		return "every " + period
	case schedule != "":
		return "at " + schedule
	}
	return "by hand only"
}

// jobsOf are the jobs of a Registry that have not ended, the oldest first.
func jobsOf(ctx context.Context, c client.Client, registry *registryv1alpha1.Registry) ([]client.Object, error) {
	discoveries, scans := &registryv1alpha1.DiscoveryJobList{}, &registryv1alpha1.ScanJobList{}
	err := errors.Join(c.List(ctx, discoveries, client.InNamespace(registry.Namespace)), c.List(ctx, scans, client.InNamespace(registry.Namespace)))
	if err != nil {
		return nil, err
	}
	var jobs []client.Object
	add := func(job client.Object) {
		if specOf(job).Registry == registry.Name && ended(job).Status == unknown {
			jobs = append(jobs, job)
		}
	}
	for i := range discoveries.Items {
		add(&discoveries.Items[i])
	}
	for i := range scans.Items {
		add(&scans.Items[i])
	}
	slices.SortStableFunc(jobs, func(a, b client.Object) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	return jobs, nil
}

// remedies are what a user can do for the reason of a condition that is False. NAME and NAMESPACE are those of the Registry.
var remedies = map[string]string{
	registryv1alpha1.ReasonInvalid:             "Mend the field that the message names: kubectl -n NAMESPACE edit registry NAME",
	registryv1alpha1.ReasonSecretNotFound:      "Make the Secret that spec.auth.secretName names: kubectl -n NAMESPACE create secret docker-registry",
	registryv1alpha1.ReasonSecretForbidden:     "Let workers read the Secret: PROGRAM registry grant NAME",
	registryv1alpha1.ReasonHostNotAllowed:      "Ask the cluster's admin to allow the host: egress.allowedHosts of the chart registry",
	registryv1alpha1.ReasonAdapterUnknown:      "Choose an adapter that workers have, or ask the cluster's admin for this one: adapters of the chart registry",
	registryv1alpha1.ReasonQuotaExceeded:       "Delete Registries that nobody needs, or ask the cluster's admin for a larger quota",
	registryv1alpha1.ReasonReportsUnavailable:  "The reports API does not answer. See: PROGRAM registry doctor",
	registryv1alpha1.ReasonQueueUnavailable:    "The queue of work is not to be had, or no worker speaks. See: PROGRAM registry doctor",
	registryv1alpha1.ReasonSuspended:           "Let its jobs go on: PROGRAM registry resume NAME",
	registryv1alpha1.ReasonUnauthorized:        "The registry takes the credentials for wrong: mend the Secret that spec.auth.secretName names",
	registryv1alpha1.ReasonForbidden:           "The account of the Secret may not read this: ask the registry's admin for the right to pull and list",
	registryv1alpha1.ReasonTLSFailed:           "Put the certificate of the registry's CA into spec.caBundle",
	registryv1alpha1.ReasonNameNotResolved:     "Workers do not find the host: is spec.url right, and does the cluster's DNS know the name?",
	registryv1alpha1.ReasonUnreachable:         "Workers do not reach the registry: is it running, and does a firewall or NetworkPolicy let workers out?",
	registryv1alpha1.ReasonNoRegistry:          "What answers at spec.url is not a registry: there is no /v2/",
	registryv1alpha1.ReasonRateLimited:         "The registry wants fewer requests; the work goes on by itself. Credentials raise the limit of many registries",
	registryv1alpha1.ReasonCatalogForbidden:    "The registry does not tell its repositories: name them in spec.repositories",
	registryv1alpha1.ReasonCatalogNotSupported: "The registry does not tell its repositories: name them in spec.repositories",
	registryv1alpha1.ReasonImagesFailed:        "See which, and why: PROGRAM registry images NAME --failed -o wide. Try again: PROGRAM registry retry NAME",
	registryv1alpha1.ReasonDatabaseStale:       "The vulnerability data is old. See: PROGRAM registry db",
	registryv1alpha1.ReasonDatabaseMissing:     "There is no vulnerability data yet. See: PROGRAM registry db",
	registryv1alpha1.ReasonNeverDiscovered:     "Look for images: PROGRAM registry discover NAME",
}

// adviceOf says what a user can do about the conditions of a Registry.
func adviceOf(s *session.Session, registry *registryv1alpha1.Registry) (advice []string) {
	words := strings.NewReplacer("PROGRAM", s.Program, "NAMESPACE", registry.Namespace, "NAME", registry.Name)
	add := func(reason string) {
		if remedy := remedies[reason]; remedy != "" && !slices.Contains(advice, words.Replace(remedy)) {
			advice = append(advice, words.Replace(remedy))
		}
	}
	if len(registry.Status.Conditions) == 0 {
		return []string{"The registry controller has not looked at it yet. See: " + s.Suggest("registry", "doctor")}
	}
	for _, c := range registry.Status.Conditions {
		if c.Status == metav1.ConditionFalse {
			add(c.Reason)
		}
	}
	if i := registry.Status.Images; i != nil && i.Quarantined > 0 {
		advice = append(advice, "Try images again that have ended an adapter or a worker: "+s.Suggest("registry", "retry", registry.Name, "--quarantined"))
	}
	if meta.IsStatusConditionTrue(registry.Status.Conditions, registryv1alpha1.ConditionReady) && registry.Status.LastDiscovery == nil {
		add(registryv1alpha1.ReasonNeverDiscovered)
	}
	return advice
}
