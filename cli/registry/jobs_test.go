// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/clitest"
)

// controller plays the registry controller for the jobs of a list, until the test ends: it writes a status for each new one.
func controller(t *testing.T, w *clitest.World, list client.ObjectList, end func(job client.Object)) {
	t.Helper()
	c, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := c.Watch(t.Context(), list, client.InNamespace(w.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	done, lasting := make(chan struct{}), context.WithoutCancel(t.Context())
	go func() {
		defer close(done)
		for e := range watcher.ResultChan() {
			job, ok := e.Object.(client.Object)
			if !ok || e.Type != watch.Added {
				continue
			}
			end(job)
			if err := cluster.Client.Status().Update(lasting, job); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				t.Errorf("end %s: %v", job.GetName(), err)
			}
		}
	}()
	t.Cleanup(func() { watcher.Stop(); <-done })
}

// completed ends a job.
func completed(status *registryv1alpha1.JobStatus, is metav1.ConditionStatus, reason, message string) {
	began, ended := metav1.NewTime(now), metav1.NewTime(now.Add(3*time.Second))
	status.State, status.StartTime, status.CompletionTime = reason, &began, &ended
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: registryv1alpha1.ConditionCompleted, Status: is, Reason: reason, Message: message})
}

// TestWait waits for jobs, and fails by what images have.
func TestWait(t *testing.T) {
	w, r := world(t)
	scanned(t, w, r, imageOf("api-1", "shop/api", "1.0", digestA), bad, mild)
	scanned(t, w, r, imageOf("web-1", "shop/web", "1.0", digestB), mild)
	controller(t, w, &registryv1alpha1.DiscoveryJobList{}, func(job client.Object) {
		j, ok := job.(*registryv1alpha1.DiscoveryJob)
		switch {
		case !ok:
			t.Errorf("the API server sent %T", job)
		case j.Spec.Force:
			completed(&j.Status.JobStatus, metav1.ConditionFalse, registryv1alpha1.ReasonFailed, "every repository failed")
		case j.Spec.RetryOnly: // goes on
		default:
			j.Status.Repositories = &registryv1alpha1.RepositoryCounts{Total: 2, Done: 1, Failed: 1}
			j.Status.Tags = &registryv1alpha1.TagCounts{Listed: 9, Selected: 2, Skipped: 7}
			j.Status.Images = &registryv1alpha1.FoundImages{Found: 2, New: 1, Unchanged: 1}
			j.Status.Warnings = []registryv1alpha1.Warning{{Code: "InvalidManifest", Count: 1, Examples: []string{"shop/odd:1"}}}
			j.Status.Errors = []registryv1alpha1.ItemError{{Item: "shop/private", Reason: "Forbidden", Message: "may not be read"}}
			j.Status.ErrorsTotal = 3
			completed(&j.Status.JobStatus, metav1.ConditionTrue, registryv1alpha1.ReasonCompletedWithErrors, "")
		}
	})
	clitest.Ends(t, w.Run("registry", "discover", "prod", "--wait"), 0, "discoveryjob/prod-", "CompletedWithErrors after 3s: 2 of 2 repositories, 2 of 9 tags taken, 2 images (1 new)",
		"warning: InvalidManifest, 1 times: shop/odd:1", "failed: shop/private: Forbidden: may not be read", "failed: 2 more")
	clitest.Ends(t, w.Run("registry", "discover", "prod", "--fail-on", "high", "--quiet"), 2, "1 image of prod has 1 vulnerability of severity HIGH or above (--fail-on)")
	clitest.Ends(t, w.Run("registry", "discover", "prod", "--fail-on", "critical"), 0)
	clitest.Ends(t, w.Run("registry", "discover", "prod", "--force", "--wait"), 1, "is Failed: every repository failed")
	clitest.Ends(t, w.Run("registry", "discover", "prod", "--fail-on", "awful"), 1, "--fail-on: severity")
	clitest.Ends(t, w.Run("registry", "retry", "prod", "--timeout", "10ms"), 3, "has not ended after 10ms; it goes on", "scanyard registry cancel discoveryjob/prod-")

	controller(t, w, &registryv1alpha1.ScanJobList{}, func(job client.Object) {
		if j, ok := job.(*registryv1alpha1.ScanJob); ok {
			j.Status.Images = &registryv1alpha1.ScannedImages{Total: 5, Unaffected: 4, Wanted: 1, Changed: 1}
			completed(&j.Status.JobStatus, metav1.ConditionTrue, registryv1alpha1.ReasonSucceeded, "")
		}
	})
	clitest.Ends(t, w.Run("registry", "scan", "prod", "--wait"), 0, "Succeeded after 3s: 1 of 1 image rescanned, 1 changed, 4 unaffected")
	clitest.Ends(t, w.Run("registry", "scan", "prod", "--image", "shop/w*", "--fail-on", "high"), 0)
	clitest.Ends(t, w.Run("registry", "scan", host+"/shop/api:1.0", "--fail-on", "high"), 2, "1 image of prod has 1 vulnerability")
	clitest.Ends(t, w.Run("registry", "scan", "prod", "--image", "nothing"), 1, `no image of prod fits "nothing"`)
	clitest.Ends(t, w.Run("registry", "scan", "prod", "--image", "["), 1, "--image")
	clitest.Ends(t, w.Run("registry", "scan", "shop/api:1.0", "--image", "x"), 1, "the reference names an image already")
	jobs := &registryv1alpha1.ScanJobList{}
	if err := cluster.Client.List(t.Context(), jobs, client.InNamespace(w.Namespace)); err != nil {
		t.Fatal(err)
	}
	named := map[string]registryv1alpha1.Mode{}
	for _, j := range jobs.Items {
		named[strings.Join(j.Spec.Images, ",")] = j.Spec.Mode
	}
	if len(named) != 3 || named["web-1"] == registryv1alpha1.ModeFull || named["api-1"] != registryv1alpha1.ModeFull {
		t.Errorf("the jobs are for %v", named)
	}
}

// TestCancel ends jobs by their names.
func TestCancel(t *testing.T) {
	w, _ := world(t)
	clitest.Ends(t, w.Run("registry", "discover", "prod"), 0)
	jobs := &registryv1alpha1.DiscoveryJobList{}
	if err := cluster.Client.List(t.Context(), jobs, client.InNamespace(w.Namespace)); err != nil || len(jobs.Items) != 1 {
		t.Fatal(err, len(jobs.Items))
	}
	job := &jobs.Items[0]
	clitest.Ends(t, w.Run("registry", "cancel", job.Name), 0, "discoveryjob/"+job.Name+" is being cancelled")
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || !job.Spec.Cancel {
		t.Errorf("the job: %v, %+v", err, job.Spec)
	}
	completed(&job.Status.JobStatus, metav1.ConditionFalse, registryv1alpha1.ReasonCancelled, "")
	if err := cluster.Client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("registry", "cancel", "discoveryjob/"+job.Name), 1, "has ended: Cancelled")
	clitest.Ends(t, w.Run("registry", "cancel", "scanjob/"+job.Name), 1, `there is no job "`+job.Name+`"`)
	clitest.Ends(t, w.Run("registry", "cancel", "pod/x"), 1, "say discoveryjob/NAME or scanjob/NAME")
}

// TestAdd makes Registries, and lets workers read their Secrets.
func TestAdd(t *testing.T) {
	w, _ := world(t)
	clitest.Ends(t, w.Run("registry", "add", "https://two.example.com/", "--repo", "shop/*", "--platform", "linux/amd64", "--newest", "5", "--semver", ">=1", "--every", "1h",
		"--secret", "pull", "--dry-run"), 0, "registry/two.example.com created (dry run)")
	clitest.Ends(t, w.Run("registry", "list"), 0, "prod")
	clitest.Ends(t, w.Run("registry", "add", "two.example.com", "--name", "two", "--repo", "shop/*", "--newest", "5", "--secret", "pull"), 0, "registry/two created",
		"scanyard registry grant two", "scanyard registry discover two --wait")
	made := &registryv1alpha1.Registry{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "two"}, made); err != nil {
		t.Fatal(err)
	}
	if made.Spec.URL != "https://two.example.com" || *made.Spec.Tags.Newest != 5 || made.Spec.Repositories[0] != "shop/*" || made.Spec.Auth.SecretName != "pull" {
		t.Errorf("made %+v", made.Spec)
	}
	clitest.Ends(t, w.Run("registry", "add", "docker.io", "--dry-run", "-o", "yaml"), 0, "url: https://registry-1.docker.io", "name: docker.io")
	for text, args := range map[string][]string{
		"say so with --insecure PlainHTTP":                      {"http://x.example"},
		"repositories are given with --repo":                    {"https://x.example/shop"},
		"--newest must be 1 or more":                            {"https://x.example", "--newest", "-1"},
		"discoveryPeriod and discoverySchedule":                 {"https://x.example", "--every", "1h", "--schedule", "@hourly"},
		`Unsupported value: "aws"`:                              {"https://x.example", "--type", "aws"},
		`registries.registry.scanyard.io "prod" already exists`: {"https://x.example", "--name", "prod"},
	} {
		clitest.Ends(t, w.Run(append([]string{"registry", "add"}, args...)...), 1, text)
	}

	clitest.Ends(t, w.Run("registry", "grant", "prod"), 1, "names no Secret in spec.auth.secretName")
	clitest.Ends(t, w.Run("registry", "grant", "two"), 1, `there is no Secret "pull"`)
	secrets := []string{"pull", "other"}
	for _, name := range secrets {
		if err := cluster.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	create(t, w, "three", func(r *registryv1alpha1.Registry) { r.Spec.Auth = &registryv1alpha1.Auth{SecretName: "other"} })
	clitest.Ends(t, w.Run("registry", "grant", "two"), 0, "workers of namespace scanyard-system may read secret/pull")
	clitest.Ends(t, w.Run("registry", "grant", "two"), 0)
	clitest.Ends(t, w.Run("registry", "grant", "three", "--worker-namespace", "security"), 0, "may read secret/other")
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	for _, object := range []client.Object{role, binding} {
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "registry-worker-credentials"}, object); err != nil {
			t.Fatal(err)
		}
	}
	if len(role.Rules) != 2 || role.Rules[0].ResourceNames[0] != "pull" || role.Rules[1].ResourceNames[0] != "other" || len(binding.Subjects) != 2 {
		t.Errorf("granted %+v to %+v", role.Rules, binding.Subjects)
	}
}

// TestPreview shows what a filter takes, and why a tag was left out.
func TestPreview(t *testing.T) {
	w, r := world(t)
	controller(t, w, &registryv1alpha1.DiscoveryJobList{}, func(job client.Object) {
		j, ok := job.(*registryv1alpha1.DiscoveryJob)
		if !ok || !j.Spec.DryRun {
			t.Errorf("%T %v", job, ok)
			return
		}
		if j.Spec.Override != nil && len(j.Spec.Override.Repositories) == 1 && j.Spec.Override.Repositories[0] == "odd" {
			completed(&j.Status.JobStatus, metav1.ConditionFalse, registryv1alpha1.ReasonInvalid, "tags.expression: no such overload")
			return
		}
		j.Status.Tags = &registryv1alpha1.TagCounts{Listed: 3, Selected: 1, Skipped: 2, ByReason: map[string]int64{"Excluded": 1, "NotNewest": 1}}
		j.Status.Preview = &registryv1alpha1.Preview{
			Selected: []string{"shop/api:1.1"}, Skipped: []registryv1alpha1.SkippedTag{{Tag: "shop/api:debug", Reason: "Excluded"}},
		}
		completed(&j.Status.JobStatus, metav1.ConditionTrue, registryv1alpha1.ReasonSucceeded, "")
	})
	clitest.Ends(t, w.Run("registry", "preview", "prod"), 0, "+  shop/api:1.1", "-  shop/api:debug  Excluded", "1 of 3 tags taken; left out: 1 Excluded, 1 NotNewest", "Shown are 2 of 3")
	file := filepath.Join(t.TempDir(), "filter.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("repositories: [shop/*]\ntags: {newest: 2}\n")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "--file", file), 0, "1 of 3 tags taken")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file, "--why", "debug"), 0, "shop/api:debug is left out: Excluded")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file, "--why", "shop/api:1.1"), 0, "shop/api:1.1 is taken")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file, "--why", "other"), 1, `"other" is not among the tags`)
	write("apiVersion: registry.scanyard.io/v1alpha1\nkind: Registry\nmetadata: {name: x}\nspec: {url: \"https://x.example\", repositories: [odd]}\n")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file), 1, "the preview is Invalid: tags.expression: no such overload")
	write("tags: {newst: 2}\n")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file), 1, "newst")
	write("kind: Pod\n")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file), 1, "is a Pod: it must be a Registry, or a filter alone")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "-f", file+"x"), 1, "no such file")
	left := &registryv1alpha1.DiscoveryJobList{}
	if err := cluster.Client.List(t.Context(), left, client.InNamespace(w.Namespace)); err != nil || len(left.Items) != 0 {
		t.Errorf("%d jobs of previews are left, %v", len(left.Items), err)
	}

	clitest.Ends(t, w.Run("registry", "preview", "prod", "--why", "debug"), 1, `the last discovery of prod knows no tag "debug"`)
	r.Repository(w.Namespace, "api", "shop/api", reportsv1.Tag{Tag: "debug", Digest: digestA, Reason: "Excluded"}, reportsv1.Tag{Tag: "1.1", Digest: digestB, Selected: true})
	clitest.Ends(t, w.Run("registry", "preview", "prod", "--why", "debug"), 0, "shop/api:debug  no     Excluded")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "--why", "shop/api:1.1"), 0, "shop/api:1.1  yes")
	clitest.Ends(t, w.Run("registry", "preview", "prod", "--why", "shop/web:1.1"), 1, "knows no tag")
}

// TestDescribe says why something waits, and what to do.
func TestDescribe(t *testing.T) {
	w, r := world(t)
	clitest.Ends(t, w.Run("registry", "describe", "prod"), 0, "https://registry.example.com", "all of the catalogue", "by hand only", "The registry controller has not looked at it yet")
	clitest.Ends(t, w.Run("registry", "doctor"), 1, "FAIL", "the registry controller has not looked at it", "no worker has fetched any yet", "1 of the checks failed")
	clitest.Ends(t, w.Run("registry", "db"), 0, "There is no vulnerability data yet")
	registry := &registryv1alpha1.Registry{}
	set := func(kind string, is metav1.ConditionStatus, reason, message string) {
		t.Helper()
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "prod"}, registry); err != nil {
			t.Fatal(err)
		}
		registry.Status.Images = &registryv1alpha1.ImageCounts{Present: 3, Scanned: 2, Quarantined: 1}
		registry.Status.Vulnerabilities = &registryv1alpha1.VulnerabilityCounts{Critical: 1, Fixable: 1}
		meta.SetStatusCondition(&registry.Status.Conditions, metav1.Condition{Type: kind, Status: is, Reason: reason, Message: message})
		if err := cluster.Client.Status().Update(t.Context(), registry); err != nil {
			t.Fatal(err)
		}
	}
	set("Ready", metav1.ConditionFalse, registryv1alpha1.ReasonSecretForbidden, "the worker may not read it")
	clitest.Ends(t, w.Run("registry", "describe", "prod"), 0, "False, SecretForbidden: the worker may not read it", "3: 2 scanned, 0 waiting, 0 failed, 1 quarantined", "1 critical; 1 fixable",
		"→ Let workers read the Secret: scanyard registry grant prod", "scanyard registry retry prod --quarantined")
	clitest.Ends(t, w.Run("registry", "doctor"), 1, "SecretForbidden", "scanyard registry grant prod")
	set("Ready", metav1.ConditionTrue, registryv1alpha1.ReasonAccepted, "")
	set("UpToDate", metav1.ConditionFalse, registryv1alpha1.ReasonImagesFailed, "1 image failed")
	built := metav1.NewTime(time.Now().Add(-time.Hour))
	r.Send(http.MethodPost, "/vulnerabilitydatabases", &reportsv1.VulnerabilityDatabase{
		TypeMeta:   metav1.TypeMeta{APIVersion: reportsv1.SchemeGroupVersion.String(), Kind: "VulnerabilityDatabase"},
		ObjectMeta: metav1.ObjectMeta{Name: "mini"},
	}, nil)
	r.Send(http.MethodPatch, "/vulnerabilitydatabases/mini/status", map[string]any{"status": reportsv1.VulnerabilityDatabaseStatus{Version: digestA, BuiltAt: &built}},
		map[string]string{"Content-Type": "application/merge-patch+json"})
	clitest.Ends(t, w.Run("registry", "doctor"), 0, "ok    vulnerability data", "warn  registry prod", "ImagesFailed: 1 image failed", "registry images prod --failed", "It works, with warnings")
	clitest.Ends(t, w.Run("registry", "db"), 0, "mini")
	clitest.Ends(t, w.Run("registry", "db", "-o", "name"), 0, "vulnerabilitydatabase.reports.scanyard.io/mini")
	set("UpToDate", metav1.ConditionTrue, registryv1alpha1.ReasonScanned, "")
	clitest.Ends(t, w.Run("registry", "doctor"), 0, "All is well")
	clitest.Ends(t, w.Run("registry", "discover", "prod"), 0)
	clitest.Ends(t, w.Run("registry", "describe", "prod"), 0, "discoveryjob/prod-", "Waiting")
}
