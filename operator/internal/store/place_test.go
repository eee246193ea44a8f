// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// teamPlaces lets namespace team-a use bucket listed and folders below a, and gives it credentials.
type teamPlaces struct{}

var errNotYours = errors.New("not yours")

func (teamPlaces) MayUse(_ context.Context, namespace string, p Place) error {
	bucket := p.Bucket == "" || p.Bucket == "listed" || p.CredentialsSecret != ""
	prefix := p.Prefix == "" || strings.HasPrefix(p.Prefix, "a/")
	if namespace == "team-a" && bucket && prefix {
		return nil
	}
	return errNotYours
}

func (teamPlaces) Credentials(_ context.Context, namespace, secret string) (Credentials, error) {
	if namespace == "team-a" && secret == "s3" {
		return Credentials{AccessKey: "team", SecretKey: "secret"}, nil
	}
	return Credentials{}, errNotYours
}

func TestPlaces(t *testing.T) {
	cases := map[string]struct {
		reason, place string
		namespace     string
		wantPath      string
		wantKey       string
		wantErr       string
	}{
		"None":        {reason: "the operator's own", wantPath: "/own/scan-u/raw.xml", wantKey: "operator"},
		"Prefix":      {reason: "in front of the keys", place: Place{Prefix: "a/b"}.String(), wantPath: "/own/a/b/scan-u/raw.xml", wantKey: "operator"},
		"NotPrefix":   {reason: "a prefix needs permission too", place: Place{Prefix: "b"}.String(), wantErr: "use prefix b of bucket own: not yours"},
		"OwnByName":   {reason: "also in the operator's bucket by its name", place: Place{Bucket: "own", Prefix: "b"}.String(), wantErr: "use prefix b of bucket own: not yours"},
		"SecretOnly":  {reason: "credentials do for the operator's bucket, too", place: Place{CredentialsSecret: "s3"}.String(), wantPath: "/own/scan-u/raw.xml", wantKey: "team"},
		"Listed":      {reason: "a bucket that the cluster admin lists", place: Place{Bucket: "listed"}.String(), wantPath: "/listed/scan-u/raw.xml", wantKey: "operator"},
		"NotListed":   {reason: "any other is refused", place: Place{Bucket: "other"}.String(), wantErr: "use bucket other: not yours"},
		"OtherTeam":   {reason: "also for a namespace that may not", place: Place{Bucket: "listed"}.String(), namespace: "team-b", wantErr: "not yours"},
		"Credentials": {reason: "with a Secret any bucket, as its keys may", place: Place{Bucket: "other", CredentialsSecret: "s3"}.String(), wantPath: "/other/scan-u/raw.xml", wantKey: "team"},
		"OwnBucket":   {reason: "the operator's bucket by name needs no list", place: Place{Bucket: "own"}.String(), wantPath: "/own/scan-u/raw.xml", wantKey: "operator"},
		"NoSecret":    {reason: "a Secret that may not be read", place: Place{Bucket: "other", CredentialsSecret: "s4"}.String(), wantErr: "not yours"},
		"Up":          {reason: "a prefix does not leave the folder", place: `{"prefix":"a/../../b"}`, wantErr: "folder .."},
		"Slash":       {reason: "keys have no leading slash", place: `{"prefix":"/a"}`, wantErr: "is not a prefix"},
		"Unknown":     {reason: "a field that is not ours", place: `{"endpoint":"http://elsewhere"}`, wantErr: "unknown field"},
		"NoJSON":      {reason: "a text of another client", place: "bucket", wantErr: "read where results lie"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Endpoint: "s3.example", Bucket: "own", AccessKey: "operator", SecretKey: "k", Region: "r", PathStyle: "true"}, WithTenants(teamPlaces{}))
			if err != nil {
				t.Fatal(err)
			}
			namespace := "team-a"
			if tc.namespace != "" {
				namespace = tc.namespace
			}
			o := OwnerOf(&metav1.ObjectMeta{Name: "s", Namespace: namespace, UID: "u", Annotations: map[string]string{executionv1.AnnotationStoragePlace: tc.place}})
			got, err := s.PresignUpload(t.Context(), o, "raw.xml", time.Minute)
			if tc.wantErr != "" {
				outage, ok := errors.AsType[*Error](err)
				if !ok || !strings.Contains(outage.Error(), tc.wantErr) {
					t.Fatalf("%s: error %v, want a store.Error with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			if u.Path != tc.wantPath || !strings.HasPrefix(u.Query().Get("X-Amz-Credential"), tc.wantKey+"/") || u.Host != "s3.example" {
				t.Errorf("%s: %s at %s signed by %s, want %s signed by %s", tc.reason, u.Path, u.Host, u.Query().Get("X-Amz-Credential"), tc.wantPath, tc.wantKey)
			}
		})
	}
}

// TestPlacesNeedTenants: an operator that knows of none stays in its bucket.
func TestPlacesNeedTenants(t *testing.T) {
	s, err := New(Config{Endpoint: "s3.example", Bucket: "own", AccessKey: "operator", SecretKey: "k", Region: "r"})
	if err != nil {
		t.Fatal(err)
	}
	o := Owner{UID: "u", Name: "s", Namespace: "n", place: Place{Bucket: "other"}.String()}
	if _, err := s.PresignDownload(t.Context(), o, "raw.xml", time.Minute); !errors.Is(err, errNoTenants) {
		t.Errorf("error %v, want %v", err, errNoTenants)
	}
}

// TestClientsAreKept: clients know the regions of buckets, and cost a look at the storage.
func TestClientsAreKept(t *testing.T) {
	s, err := New(Config{Endpoint: "s3.example", Bucket: "own", AccessKey: "operator", SecretKey: "k", Region: "r"}, WithTenants(teamPlaces{}))
	if err != nil {
		t.Fatal(err)
	}
	o := Owner{UID: "u", Name: "s", Namespace: "team-a", place: Place{Bucket: "other", CredentialsSecret: "s3"}.String()}
	first, err := s.resolve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.resolve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if first.client != second.client || first.client == s.client {
		t.Error("the client of a namespace's credentials is made again")
	}
}

// TestKeysNeverReachAnotherScan: whatever somebody writes into the annotation of a Scan, and
// whatever the Scan's files are called, its keys are not those of another Scan, and removing its
// results removes no others.
func TestKeysNeverReachAnotherScan(t *testing.T) {
	const mine, theirs = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	prefixes := []string{"", "scan-" + theirs, "scan-" + mine, "team-b", "team-b/scan-" + theirs, theirs, "a/b", "findings.json"}
	files := []string{"raw.json", "findings.json", theirs, "scan-" + theirs}
	for _, template := range []string{DefaultURLTemplate, "{{ .Scan.UID }}/{{ .Filename }}", "{{ .Scan.Namespace }}/{{ .Scan.UID }}/{{ .Filename }}", "{{ .Scan.UID }}-{{ .Filename }}", "{{ .Filename }}/{{ .Scan.UID }}"} {
		l, err := NewLayout(template)
		if err != nil {
			t.Fatal(err)
		}
		key := func(prefix string, o Owner, file string) string {
			k, err := l.Key(o, file)
			if err != nil {
				t.Fatal(err)
			}
			return prefix + "/" + k
		}
		me, victim := Owner{UID: mine, Namespace: "team-a"}, Owner{UID: theirs, Namespace: "team-b"}
		for _, p := range prefixes {
			folder, hasFolder := l.Prefix(me)
			for _, q := range prefixes {
				for _, theirFile := range []string{"raw.json", "findings.json"} {
					hit := key(q, victim, theirFile)
					for _, file := range files {
						if key(p, me, file) == hit {
							t.Errorf("%s: file %s with prefix %q is %s of another Scan with prefix %q", template, file, p, theirFile, q)
						}
					}
					if hasFolder && !strings.Contains(q, mine) && strings.HasPrefix(hit, p+"/"+folder) {
						t.Errorf("%s: removing %q removes %s", template, p+"/"+folder, hit)
					}
				}
			}
		}
	}
}
