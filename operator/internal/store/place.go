// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/podkit/redact"
)

// Place is where the results of a Scan are stored, if not where the operator's own settings say. It is
// written on the Scan at the start and stays: settings may change, results do not move. A client that
// may edit the Scan can change its place, so the place is believed only as far as Tenants allows; keys
// contain the Scan's UID in any place, so no place leads to results of another Scan.
type Place struct {
	// Bucket is the name of the bucket; "" for the operator's bucket.
	Bucket string `json:"bucket,omitempty"`
	// Prefix comes before the keys.
	Prefix string `json:"prefix,omitempty"`
	// CredentialsSecret is a Secret in the Scan's namespace; "" for the operator's credentials.
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// String returns the text of a place that is written on a Scan; "" for the operator's own place.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "" // three strings can always be encoded
	}
	return string(text)
}

// foldersOnly is the form of a prefix; no folder may be . or ..
var foldersOnly = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)

// parsePlace reads a place from a Scan.
func parsePlace(text string) (Place, error) {
	var p Place
	if text == "" {
		return p, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Place{}, fmt.Errorf("read where results lie: %w", err)
	}
	if p.Prefix != "" && !foldersOnly.MatchString(p.Prefix) {
		return Place{}, fmt.Errorf("read where results lie: %q is not a prefix", p.Prefix)
	}
	for folder := range strings.SplitSeq(p.Prefix, "/") {
		if folder == "." || folder == ".." {
			return Place{}, fmt.Errorf("read where results lie: prefix %q has a folder %s", p.Prefix, folder)
		}
	}
	return p, nil
}

// Credentials are the credentials of a bucket.
type Credentials struct{ AccessKey, SecretKey string }

// Tenants decides what namespaces may use. Its errors are for users: they name what is missing and
// the remedy.
type Tenants interface {
	// Credentials reads the credentials in a Secret.
	Credentials(ctx context.Context, namespace, secret string) (Credentials, error)
	// MayUse decides whether results of a namespace may be stored in a place that is not the operator's
	// own; nil means yes. The bucket is "" if it is the operator's.
	MayUse(ctx context.Context, namespace string, p Place) error
}

// WithTenants lets Scans store their results in other places.
func WithTenants(t Tenants) Option {
	return func(s *Store) { s.tenants = t }
}

// ErrNoPlace says that the place on a Scan cannot be read. The operator does not write such places, so
// nothing can be stored there.
var ErrNoPlace = errors.New("is not a place of results")

// errNoTenants says that the operator knows no other place than its own.
var errNoTenants = errors.New("this operator keeps results in its own bucket only")

// place is a resolved Place.
type place struct {
	client         *minio.Client
	bucket, prefix string
}

// resolve returns where the results of a Scan are stored, and a client for that storage.
func (s *Store) resolve(ctx context.Context, o Owner) (place, error) {
	at := place{s.client, s.bucket, ""}
	want, err := parsePlace(o.place)
	if err != nil {
		return at, &Error{"find the results of Scan " + o.Name, fmt.Errorf("the annotation %s %w: %w", executionv1.AnnotationStoragePlace, ErrNoPlace, err)}
	}
	if want.Bucket == s.bucket {
		want.Bucket = ""
	}
	if want == (Place{}) {
		return at, nil
	}
	if at.client, err = s.tenantClient(ctx, o.Namespace, want); err != nil {
		return at, &Error{"use " + want.describe(s.bucket), err}
	}
	at.bucket = cmp.Or(want.Bucket, s.bucket)
	if want.Prefix != "" {
		at.prefix = want.Prefix + "/"
	}
	return at, nil
}

// describe names a place for users; own is the operator's bucket.
func (p Place) describe(own string) string {
	text := "bucket " + cmp.Or(p.Bucket, own)
	if p.Prefix != "" {
		text = "prefix " + p.Prefix + " of " + text
	}
	return text
}

func (s *Store) tenantClient(ctx context.Context, namespace string, want Place) (*minio.Client, error) {
	if s.tenants == nil {
		return nil, errNoTenants
	}
	if err := s.tenants.MayUse(ctx, namespace, want); err != nil || want.CredentialsSecret == "" {
		return s.client, err
	}
	c, err := s.tenants.Credentials(ctx, namespace, want.CredentialsSecret)
	if err != nil {
		return nil, err
	}
	return s.clients.get(c, s.newClient)
}

// clients keeps one client for each set of credentials: clients know the regions of buckets.
type clients struct {
	mu    sync.Mutex
	known map[Credentials]*minio.Client
}

// maxClients bounds the number of clients; rotated credentials leave clients behind.
const maxClients = 1000

func (c *clients) get(of Credentials, newClient func(*credentials.Credentials) (*minio.Client, error)) (*minio.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known[of]; ok {
		return known, nil
	}
	if len(c.known) >= maxClients || c.known == nil {
		c.known = map[Credentials]*minio.Client{}
	}
	made, err := newClient(credentials.NewStaticV4(of.AccessKey, of.SecretKey, ""))
	if err == nil {
		c.known[of] = made
	}
	return made, err
}

// CheckPlace returns an error for users if a place of a namespace cannot be used.
func (s *Store) CheckPlace(ctx context.Context, namespace string, p Place) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, err := s.resolve(ctx, Owner{Name: "of a check", Namespace: namespace, place: p.String()})
	if err != nil {
		return err
	}
	if err := redact.Error(checkBucket(ctx, at.client, at.bucket, "spec.storage.bucket")); err != nil {
		return fmt.Errorf("bucket %q at %s: %w", at.bucket, s.client.EndpointURL().Host, err)
	}
	return nil
}
