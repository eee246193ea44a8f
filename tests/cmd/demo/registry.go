// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/ociregistry"
	"github.com/scanyard/scanyard/tests/terminal"
)

// Names of the demo of registries.
const (
	teamShop = "shop"
	teamWeb  = "web"
	// prototypes is a vulnerability of minimist before 1.2.6, templates one of lodash before 4.17.21.
	prototypes = "CVE-2021-44906"
	templates  = "CVE-2021-23337"
)

// registryDemo is what the demo of registries stands on.
type registryDemo struct {
	*yard

	clock      clock
	host       *ociregistry.Registry
	advisories string
	// alice is a developer of team shop, bob one of team web, root the cluster's admin.
	alice, bob, root terminal.Program
}

// demoRegistry starts a cluster and a registry, has the registry looked at, and removes all of it again.
func demoRegistry(ctx context.Context, out io.Writer, s settings) (err error) {
	fmt.Fprint(
		out,
		"Scanyard and a container registry, on a Kubernetes cluster made of this machine's processes.\n"+
			"No containers, no downloads, nothing outside this machine.\n\n",
	)
	d := &registryDemo{clock: clock{began: time.Now(), out: out}, host: ociregistry.Start()}
	defer d.host.Close()
	d.advisories = filepath.Join(filepath.Dir(s.programs.Charts), "registry", "testdata", "advisories", "npm.json")
	if err := d.fill(ctx); err != nil {
		return fmt.Errorf("fill the registry: %w", err)
	}
	d.clock.say("a registry listens on %s      shop/api has 8 tags, one of them broken; web/page has one", d.host.Host)
	dir, cleanup, err := dataDir(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanup()) }()
	if d.yard, err = startCluster(ctx, s.programs, dir, false); err != nil {
		return err
	}
	defer func() {
		d.clock.say("cleaning up")
		err = errors.Join(err, d.remove())
	}()
	d.clock.say("the cluster is up")
	if err := d.install(ctx); err != nil {
		return err
	}
	return d.play(ctx)
}

// fill puts images into the registry.
func (d *registryDemo) fill(ctx context.Context) error {
	images := map[string]v1.Image{}
	for name, packages := range map[string]map[string]string{
		"old": {"lodash": "4.17.15", "minimist": "1.2.0"}, "new": {"lodash": "4.17.21", "minimist": "1.2.0"}, "newest": {"lodash": "4.17.21", "minimist": "1.2.8"},
		"edge": {"left-pad": "1.3.0"},
	} {
		image, err := ociregistry.NPM("linux/amd64", packages)
		if err != nil {
			return err
		}
		images[name] = image
	}
	for _, push := range []struct{ repository, tag, image string }{
		{"shop/api", "1.0.0", "old"},
		{"shop/api", "1.1.0", "new"},
		{"shop/api", "1.2.0", "newest"},
		{"shop/api", "1.2.0-rc.1", "old"},
		{"shop/api", "1.2.0-debug", "old"},
		{"shop/api", "latest", "newest"},
		{"shop/api", "edge", "edge"},
		{"web/page", "2.0.0", "old"},
	} {
		if err := d.host.Push(ctx, push.repository, push.tag, images[push.image]); err != nil {
			return err
		}
	}
	if err := d.host.Manifest(ctx, "shop/api", "1.3.0", "application/vnd.oci.image.manifest.v1+json", []byte(`{"layers":"none"}`)); err != nil {
		return err
	}
	return d.publish(ctx, nil)
}

// publish puts vulnerability data into the registry.
func (d *registryDemo) publish(ctx context.Context, edit func([]byte) []byte) error {
	database, err := ociregistry.Database(d.advisories, edit)
	if err != nil {
		return err
	}
	return d.host.Push(ctx, "db/mini", "1", database)
}

// install installs the reports API and registry scanning, with the adapter that is built in.
func (d *registryDemo) install(ctx context.Context) error {
	for namespace, user := range map[string]string{teamShop: "alice", teamWeb: "bob"} {
		if err := d.team(ctx, namespace, user); err != nil {
			return err
		}
	}
	reports, err := install.Reports(ctx)
	if err != nil {
		return err
	}
	free, err := ports.Free(6)
	if err != nil {
		return err
	}
	registry := install.Release{Chart: "registry", Namespace: reports.Namespace, Values: map[string]any{
		"controller": map[string]any{"ports": map[string]any{"metrics": free[0], "health": free[1], "nats": free[2], "webhook": free[3]}},
		"worker":     map[string]any{"ports": map[string]any{"metrics": free[4], "health": free[5]}},
		"nats":       map[string]any{"url": fmt.Sprintf("tls://127.0.0.1:%d", free[2])},
		"adapters":   []any{"mini"}, "defaultAdapter": "mini",
		"database": map[string]any{
			"mini": map[string]any{"repository": d.host.Host + "/db/mini:1", "insecure": true}, "maxAge": "5000d", "checkPeriod": "5s",
		},
		"egress": map[string]any{"allowCIDRs": []any{"127.0.0.1/32"}}, "dedupeHosts": []any{d.host.Host},
	}}
	for _, release := range []install.Release{reports, registry} {
		if err := d.helm.Install(ctx, release); err != nil {
			return err
		}
		d.clock.say("%s", describe(release))
	}
	if err := install.ReportsReady(ctx, d.admin, operatorTimeout); err != nil {
		return err
	}
	d.root = d.commandLine()
	d.alice = d.root.With("--as", "alice", "-n", teamShop)
	d.bob = d.root.With("--as", "bob", "-n", teamWeb)
	// Roles of charts that have just been installed are added to edit a moment later.
	return d.until(ctx, func() (bool, error) {
		r, err := d.alice.Run(ctx, "registry", "list")
		return err == nil && r.Code == 0, err
	})
}

// until asks again until something holds.
func (d *registryDemo) until(ctx context.Context, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	const pause = time.Second
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// act is a command of the demo: who types it, how it has to end, and what it must print.
type act struct {
	title string
	who   *terminal.Program
	code  int
	says  []string
	not   string
	args  string
}

func (d *registryDemo) acts() []act {
	add := "registry add http://" + d.host.Host + " --insecure PlainHTTP --name prod --every 1h"
	return []act{
		{
			title: "team shop has a registry looked at: one platform, versions, the two newest", who: &d.alice,
			args: add + " --repo shop/* --platform linux/amd64 --semver >=1.0 --newest 2 --newest-by SemVer", says: []string{"registry/prod created"},
		},
		{
			title: "what would be taken, and why not the rest", who: &d.alice,
			args: "registry preview prod", says: []string{"shop/api:1.2.0", "Prerelease", "NotAVersion", "NotNewest"},
		},
		{
			title: "new images get an SBOM and a report; the broken tag is one warning", who: &d.alice,
			args: "registry discover prod --wait --timeout 2m", says: []string{"Succeeded", "InvalidManifest"},
		},
		{title: "the images", who: &d.alice, args: "registry images prod", says: []string{"shop/api:1.1.0", "shop/api:1.2.0", "Scanned"}, not: "1.0.0"},
		{
			title: "one image: its layers, and what is wrong with it", who: &d.alice,
			args: "registry image shop/api:1.1.0", says: []string{"COPY package-lock.json /app/", "1 critical"},
		},
		{
			title: "vulnerabilities with the command of the layer that brings them; a pipeline fails by them", who: &d.alice,
			args: "registry vulns shop/api:1.1.0 -o wide --fail-on critical", code: 2, says: []string{prototypes, "1.2.6", "COPY package-lock.json /app/"},
		},
		{title: "its packages", who: &d.alice, args: "registry sbom shop/api:1.1.0", says: []string{"lodash", "4.17.21"}},
		{title: "two versions compared", who: &d.alice, args: "registry diff shop/api:1.1.0 shop/api:1.2.0", says: []string{"fixed", prototypes}},
		{title: "team web on the same registry sees its own", who: &d.bob, args: add + " --repo web/*", says: []string{"registry/prod created"}},
		{title: "", who: &d.bob, args: "registry discover prod --wait --timeout 2m --quiet", says: []string{"Succeeded"}},
		{title: "", who: &d.bob, args: "registry images", says: []string{"web/page:2.0.0"}, not: "shop/"},
		{
			title: "the cluster's admin asks who has it", who: &d.root,
			args: "registry who-has " + prototypes + " -A", says: []string{teamShop, teamWeb, "2 images have it"},
		},
	}
}

// play runs the acts, then changes the vulnerability data.
func (d *registryDemo) play(ctx context.Context) error {
	n := 0
	for _, a := range d.acts() {
		if a.title != "" {
			n++
			fmt.Fprintf(d.clock.out, "\n%d. %s\n", n, a.title)
		}
		if err := d.run(ctx, a); err != nil {
			fmt.Fprintf(d.clock.out, "FAIL  %v\n", err)
			return errNotAsExpected
		}
	}
	fmt.Fprintf(d.clock.out, "\n%d. new vulnerability data: only what it touches is matched again\n", n+1)
	if err := d.change(ctx); err != nil {
		fmt.Fprintf(d.clock.out, "FAIL  %v\n", err)
		return errNotAsExpected
	}
	fmt.Fprintln(d.clock.out, "\nPASS")
	return nil
}

// run runs a command as a user types it, and holds it to what it must say.
func (d *registryDemo) run(ctx context.Context, a act) error {
	fmt.Fprintf(d.clock.out, "$ scanyard %s\n", strings.Join(append(a.who.Args, a.args), " "))
	r, err := a.who.Run(ctx, strings.Fields(a.args)...)
	fmt.Fprint(d.clock.out, r.Out, r.ErrOut)
	if err := says(r, err, a.code, a.says...); err != nil {
		return err
	}
	if a.not != "" && strings.Contains(r.Out, a.not) {
		return fmt.Errorf("it says %q", a.not)
	}
	return nil
}

// change publishes data in which lodash 4.17.21 is vulnerable, too, and waits until the images that have it are known.
func (d *registryDemo) change(ctx context.Context) error {
	err := d.publish(ctx, func(advisories []byte) []byte {
		changed := bytes.Replace(advisories, []byte("4.17.21"), []byte("4.17.22"), 1)
		return bytes.Replace(changed, []byte("2025-09-01T00:00:00Z"), []byte("2025-09-02T00:00:00Z"), 1)
	})
	if err != nil {
		return err
	}
	d.clock.say("the advisory of lodash has changed: its fix is 4.17.22 now")
	var job unstructured.Unstructured
	err = d.until(ctx, func() (bool, error) {
		jobs := &unstructured.UnstructuredList{}
		jobs.SetGroupVersionKind(schema.GroupVersionKind{Group: "registry.scanyard.io", Version: "v1alpha1", Kind: "ScanJobList"})
		if err := d.admin.List(ctx, jobs, client.InNamespace(teamShop)); err != nil {
			return false, err
		}
		for _, item := range jobs.Items {
			if at, _, _ := unstructured.NestedString(item.Object, "status", "completionTime"); at != "" {
				job = item
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("no ScanJob has ended: %w", err)
	}
	images, _, err := unstructured.NestedMap(job.Object, "status", "images")
	if err != nil {
		return err
	}
	d.clock.say("scanjob/%s                     %v rescanned, %v unaffected", job.GetName(), images["wanted"], images["unaffected"])
	return d.run(ctx, act{who: &d.alice, args: "registry who-has " + templates, says: []string{"shop/api:1.1.0", "shop/api:1.2.0", "4.17.22"}})
}
