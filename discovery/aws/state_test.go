// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNewImage(t *testing.T) {
	for name, c := range map[string]struct {
		image, digest string
		want          Image
		refused       bool
	}{
		"Hub": {image: "nginx", digest: digest1, want: Image{
			Id: "docker.io/library/nginx@" + digest1, Name: "nginx", Digest: digest1, Version: "latest",
			Registry: "docker.io", Repository: "docker.io/library/nginx", ShortName: "library/nginx",
		}},
		"HubUnderItsOldName": {image: "index.docker.io/nginx:1", want: Image{
			Id: "docker.io/library/nginx:1", Name: "index.docker.io/nginx:1", Version: "1",
			Registry: "docker.io", Repository: "docker.io/library/nginx", ShortName: "library/nginx",
		}},
		"ECRWithTag": {image: "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/app:1.2", digest: digest1, want: Image{
			Id: "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/app@" + digest1, Name: "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/app:1.2",
			Digest: digest1, Version: "1.2", Registry: "123456789012.dkr.ecr.eu-central-1.amazonaws.com",
			Repository: "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/app", ShortName: "team/app",
		}},
		"DigestInTheName": {image: "localhost:5000/a@" + digest2, want: Image{
			Id: "localhost:5000/a@" + digest2, Name: "localhost:5000/a@" + digest2, Digest: digest2, Version: digest2,
			Registry: "localhost:5000", Repository: "localhost:5000/a", ShortName: "a",
		}},
		"TagAndDigestInTheName": {image: "a/b:1@" + digest2, digest: digest1, want: Image{
			Id: "docker.io/a/b@" + digest1, Name: "a/b:1@" + digest2, Digest: digest1, Version: "1",
			Registry: "docker.io", Repository: "docker.io/a/b", ShortName: "a/b",
		}},
		"Empty":        {refused: true},
		"UpperCase":    {image: "Nginx", refused: true},
		"Long":         {image: strings.Repeat("a", 2000), refused: true},
		"NoDigest":     {image: "nginx", digest: "latest", refused: true},
		"NoDigestName": {image: "nginx@x", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newImage(c.image, c.digest)
			if (err != nil) != c.refused {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanName(t *testing.T) {
	long := strings.Repeat("configuration-", 4) + "1"
	for name, c := range map[string]struct{ image, digest, config, want string }{
		"AsSecureCodeBox":        {"bkimminich/juice-shop", digest1, "trivy", juice},
		"DotsAndLines":           {"a/b.c_d", digest1, "x.y", "a-b-c-d-x-y-at-163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab"[:maxNameLength]},
		"NoDigest":               {"nginx:1", "", "trivy", "library-nginx-trivy-at-" + digits("docker.io/library/nginx:1")[:39]},
		"LongConfig":             {"nginx", digest1, long, "library-nginx-configuration-configura-" + digits("library/nginx-" + long)[:10] + "-at-163482fed1"},
		"LongestAsSecureCodeBox": {"bkimminich/juice-shop", digest1, "a-name-of-thirty-one-characters", "bkimminich-juice-sho-a-name-of-thirty-one-characters-at-163482"},
		"OneMore":                {"bkimminich/juice-shop", digest1, "a-name-of-thirty-two-characters1", "bkimminich-juice-sho-a-name-of-thirty-" + digits("bkimminich/juice-sho-a-name-of-thirty-two-characters1")[:10] + "-at-163482fed1"},
		"ShortDigest":            {"nginx", "sha256:ABCD", "trivy", "library-nginx-trivy-at-abcd"},
	} {
		t.Run(name, func(t *testing.T) {
			img, err := newImage(c.image, c.digest)
			if err != nil {
				t.Fatal(err)
			}
			got := scanName(img, c.config)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if len(got) > maxNameLength || len(validation.IsDNS1123Label(got)) > 0 {
				t.Errorf("%q is not a valid name", got)
			}
		})
	}
}

// summary is what a state knows, for comparison.
func summary(s *state) map[imageKey][]string {
	all := map[imageKey][]string{}
	for key, r := range s.images {
		all[key] = []string{}
		for cluster, members := range r.containers {
			for c := range members {
				all[key] = append(all[key], fmt.Sprintf("%s %x", cluster, c))
			}
		}
		slices.Sort(all[key])
	}
	return all
}

// TestOrderDoesNotMatter: whatever order events come in, and however often, what is known
// in the end is what the newest of each task said.
func TestOrderDoesNotMatter(t *testing.T) {
	images := []string{"nginx", "redis", "caddy"}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var all []task
		want := newState()
		for n := range 6 {
			arn := fmt.Sprint("container", n)
			cluster := []string{shop, office}[n%2]
			states := []string{"PENDING", "RUNNING", "RUNNING", "STOPPED"}[:1+random.IntN(4)]
			for i, status := range states {
				all = append(all, task{ClusterARN: cluster, Version: int64(i + 1), Containers: []container{runs(arn, status, images[n%3], digest1)}})
			}
			want.apply(all[len(all)-1], epoch)
		}
		all = append(all, all[:len(all)/2]...)
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		got := newState()
		for _, e := range all {
			got.apply(e, epoch)
		}
		if diff := cmp.Diff(summary(want), summary(got)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

// TestRoundTrip: what is written to annotations is what a new process knows.
func TestRoundTrip(t *testing.T) {
	settings, err := Load("c", []byte(oneConfig), func(string) string { return "https://sqs.eu-central-1.amazonaws.com/1/q" }, "ns")
	if err != nil {
		t.Fatal(err)
	}
	old := newState()
	for n := range 50 {
		old.apply(task{ClusterARN: []string{shop, office}[n%2], Version: int64(n), Containers: []container{
			runs(fmt.Sprint("c", n), "RUNNING", []string{"nginx:1", "a/b"}[n%2], []string{"", digest1}[n%2]),
		}}, epoch)
	}
	var scans []executionv1.ScheduledScan
	for key, r := range old.images {
		changes, err := settings.plan(r, nil)
		if err != nil || len(changes) != 1 || changes[0].from != nil {
			t.Fatalf("%s: %v %v", key, changes, err)
		}
		scans = append(scans, *changes[0].to)
	}
	now := newState()
	ledger, err := now.load(scans)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(summary(old), summary(now)); diff != "" {
		t.Error(diff)
	}
	for key, r := range now.images {
		if diff := cmp.Diff(old.images[key].target, r.target); diff != "" {
			t.Error(diff)
		}
		if now.version(keyOf("c49")) != 49 {
			t.Error("the version of a container has been lost")
		}
		if changes, err := settings.plan(r, ledger[key]); err != nil || len(changes) > 0 {
			t.Errorf("a second pass writes %v (%v)", changes, err)
		}
	}
}

// TestManyContainers: an annotation has a bound, and an image of which not all containers
// are remembered does not count as gone when those that are have ended.
func TestManyContainers(t *testing.T) {
	s := newState()
	for n := range 3 * maxRemembered {
		s.apply(task{ClusterARN: shop, Containers: []container{runs(fmt.Sprint("c", n), "RUNNING", "nginx", digest1)}}, epoch)
	}
	key := imageKey("library/nginx@" + strings.TrimPrefix(digest1, "sha256:"))
	text, err := s.images[key].encodeContainers()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 20_000 {
		t.Errorf("the annotation has %d bytes", len(text))
	}
	target, err := json.Marshal(targetText{Container: "c0", Image: "nginx", Digest: digest1})
	if err != nil {
		t.Fatal(err)
	}
	scan := executionv1.ScheduledScan{}
	scan.Name, scan.Labels = "s", map[string]string{LabelManagedBy: ManagedBy}
	scan.Annotations = map[string]string{AnnotationTarget: string(target), AnnotationContainers: text}
	after := newState()
	if _, err := after.load([]executionv1.ScheduledScan{scan}); err != nil {
		t.Fatal(err)
	}
	if n := after.images[key].count(); n != maxRemembered {
		t.Errorf("%d containers are remembered", n)
	}
	for n := range 3 * maxRemembered {
		after.apply(task{ClusterARN: shop, Containers: []container{runs(fmt.Sprint("c", n), "STOPPED", "nginx", digest1)}}, epoch)
	}
	if after.images[key] == nil {
		t.Fatal("the image counts as gone, though its containers are unknown")
	}
	if o := after.applyListing(listing{clusters: []string{shop}}, epoch.Add(time.Hour)); !slices.Contains(o.touched, key) || after.images[key] != nil {
		t.Errorf("a listing that does not have the image leaves it: %v", o)
	}
}

func TestLoadLeavesAloneWhatItCannotRead(t *testing.T) {
	good := `{"container":"c","image":"nginx","digest":"` + digest1 + `"}`
	for name, a := range map[string]map[string]string{
		"NoTarget":     {AnnotationTarget: "x", AnnotationContainers: "{}"},
		"BadImage":     {AnnotationTarget: `{"image":"UPPER"}`, AnnotationContainers: "{}"},
		"NoContainers": {AnnotationTarget: good},
		"NoBase64":     {AnnotationTarget: good, AnnotationContainers: `{"c":"%"}`},
		"HalfAnEntry":  {AnnotationTarget: good, AnnotationContainers: `{"c":"AAAA"}`},
	} {
		t.Run(name, func(t *testing.T) {
			scan := executionv1.ScheduledScan{}
			scan.Labels, scan.Annotations = map[string]string{LabelManagedBy: ManagedBy}, a
			l, err := newState().load([]executionv1.ScheduledScan{scan})
			if err == nil || len(l) > 0 {
				t.Errorf("%v %v", l, err)
			}
		})
	}
}

func TestGenerations(t *testing.T) {
	g := generations{lasts: time.Hour}
	g.put(keyOf("a"), 3, epoch)
	g.put(keyOf("a"), 2, epoch.Add(30*time.Minute))
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{59 * time.Minute, true}, {90 * time.Minute, true}, {200 * time.Minute, false}} {
		if got := g.has(keyOf("a"), epoch.Add(c.after)); got != c.want {
			t.Errorf("after %s: %t", c.after, got)
		}
	}
	many := generations{lasts: time.Hour}
	for n := range 3 * maxGone {
		many.put(keyOf(strconv.Itoa(n)), 1, epoch)
	}
	if n := len(many.young) + len(many.old); n > 2*maxGone {
		t.Errorf("%d are remembered", n)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(taskEvent(3, shop, "RUNNING", runs("1", "RUNNING", "nginx", digest1), runs("2", "STOPPED", "x", "")))
	f.Add(`{"detail-type":"ECS Task State Change","detail":{"version":-1,"containers":[{}]}}`)
	f.Add(`{"detail-type":"x","detail":3}`)
	settings, err := Load("c", []byte(oneConfig), func(string) string { return "https://sqs.eu-central-1.amazonaws.com/1/q" }, "ns")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		e, err := parseEvent(body)
		if err != nil {
			return
		}
		s := newState()
		for range 2 {
			s.apply(e.Detail, epoch)
		}
		for key, p := range s.places {
			if _, ok := s.images[p.image].containers[p.cluster][key]; !ok {
				t.Fatalf("%x has no place", key)
			}
		}
		for _, r := range s.images {
			changes, err := settings.plan(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if problems := validation.IsDNS1123Label(c.to.Name); len(problems) > 0 {
					t.Fatalf("%q: %v", c.to.Name, problems)
				}
			}
		}
	})
}

func TestEncodeIsStable(t *testing.T) {
	r := &running{containers: map[string]map[containerKey]uint32{shop: {}, office: {}}}
	for n := range 20 {
		r.containers[shop][keyOf(strconv.Itoa(n))] = uint32(n)
	}
	first, err := r.encodeContainers()
	if err != nil {
		t.Fatal(err)
	}
	r.containers[shop] = maps.Clone(r.containers[shop])
	if again, err := r.encodeContainers(); err != nil || again != first {
		t.Errorf("%s is not %s (%v)", again, first, err)
	}
}
