// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/scanners/internal/layer"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
)

// ReleaseFile names the release and its keys, in the folder of all recipes.
const ReleaseFile = "debian.yaml"

// Release is what ReleaseFile says.
type Release struct {
	// Distribution is the release in package URLs, as debian-13.
	Distribution string         `json:"distribution"`
	Suites       []recipe.Suite `json:"suites"`
	Components   []string       `json:"components"`
	// Keys are files with the archive's public keys, beside ReleaseFile.
	Keys []string `json:"keys"`

	keyring Keyring
}

// LoadRelease reads ReleaseFile and the keys that it names.
func LoadRelease(dir string) (*Release, error) {
	data, err := os.ReadFile(filepath.Join(dir, ReleaseFile))
	if err != nil {
		return nil, fmt.Errorf("read the Debian release: %w", err)
	}
	r := &Release{}
	if err := yaml.UnmarshalStrict(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", ReleaseFile, err)
	}
	if r.Distribution == "" || len(r.Suites) == 0 || len(r.Components) == 0 || len(r.Keys) == 0 {
		return nil, fmt.Errorf("%s: distribution, suites, components and keys must be there", ReleaseFile)
	}
	for _, k := range r.Keys {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(k)))
		if err != nil {
			return nil, fmt.Errorf("%s: key: %w", ReleaseFile, err)
		}
		keys, err := ReadKeyring(b)
		if err != nil || len(keys) == 0 {
			return nil, fmt.Errorf("%s: key %s cannot be read: %w", ReleaseFile, k, errors.Join(err))
		}
		r.keyring = append(r.keyring, keys...)
	}
	return r, nil
}

// Client fetches from mirrors.
type Client struct {
	// Mirrors are the addresses of archives by name: debian, debian-security.
	Mirrors map[string]string
	// Cache keeps packages by their SHA256.
	Cache string
	// Now is the time that signatures are held against.
	Now time.Time
	// AllowExpired takes lists that are past their Valid-Until, as the lists of a snapshot of the archive are.
	AllowExpired bool
	// Progress hears what is fetched.
	Progress func(format string, args ...any)

	http *retryablehttp.Client
}

// NewClient sets up fetching with three tries.
func NewClient(mirrors map[string]string, cache string, now time.Time, progress func(string, ...any)) *Client {
	h := retryablehttp.NewClient()
	h.Logger = nil
	h.RetryMax = 2
	h.HTTPClient.Timeout = 30 * time.Minute // a browser's package over a slow line
	return &Client{Mirrors: mirrors, Cache: cache, Now: now, Progress: progress, http: h}
}

// Bounds of what a mirror may send; the real ones are an eighth of them at most.
const (
	maxRelease  = 4 << 20
	maxPackages = 512 << 20
)

// ErrGone says that a mirror no longer has a package, as after a new version was published.
var ErrGone = errors.New("the mirror does not have it (any more)")

// Lock looks up what a recipe's packages are today, for each of its platforms.
func (c *Client) Lock(ctx context.Context, rel *Release, r *recipe.Recipe) (*recipe.DebianLock, error) {
	lock := &recipe.DebianLock{}
	signed := make([]*release, len(rel.Suites))
	for i, s := range rel.Suites {
		var err error
		if signed[i], err = c.release(ctx, rel, s); err != nil {
			return nil, fmt.Errorf("Debian suite %s: %w", s.Suite, err) //nolint:staticcheck // a name
		}
		s.Date = signed[i].date.UTC().Format(time.RFC3339)
		lock.Suites = append(lock.Suites, s)
	}
	used := map[string]bool{}
	for _, p := range r.Platforms {
		x := newIndex()
		for i, s := range rel.Suites {
			for _, component := range rel.Components {
				if err := c.packages(ctx, x, s, signed[i], component, p.Arch()); err != nil {
					return nil, fmt.Errorf("Debian suite %s: %s for %s: %w", s.Suite, component, p.Arch(), err) //nolint:staticcheck // a name
				}
			}
		}
		x.finish()
		all, err := resolve(x, r.Debian.Packages, r.Debian.Without, used)
		if err != nil {
			return nil, fmt.Errorf("resolve for %s: %w", p, err)
		}
		for _, d := range all {
			lock.Packages = append(lock.Packages, recipe.Package{
				Name: d.name, Version: d.version, For: p.Arch(), Arch: d.arch, Archive: d.archive, Path: d.path, Size: d.size, SHA256: d.sha256,
			})
		}
	}
	for n := range r.Debian.Without {
		if !used[n] {
			return nil, fmt.Errorf("package %s is left out, but nothing depends on it", n)
		}
	}
	return lock, nil
}

// release fetches and checks the signed list of a suite.
func (c *Client) release(ctx context.Context, rel *Release, s recipe.Suite) (*release, error) {
	body, err := c.get(ctx, s.Archive, "dists/"+s.Suite+"/InRelease")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxRelease))
	if err != nil {
		return nil, fmt.Errorf("read InRelease: %w", err)
	}
	got, err := verifyRelease(data, rel.keyring, c.Now)
	if err != nil {
		return nil, fmt.Errorf("InRelease: %w", err)
	}
	if s.Suite != got.codename && s.Suite != got.suite {
		return nil, fmt.Errorf("InRelease is of suite %s (%s)", got.suite, got.codename)
	}
	if !got.validUntil.IsZero() && c.Now.After(got.validUntil) && !c.AllowExpired {
		return nil, fmt.Errorf(
			"InRelease was valid until %s only: the mirror is behind; use another one, or --allow-expired for a snapshot of the archive",
			got.validUntil.Format(time.RFC3339),
		)
	}
	return got, nil
}

// packages reads the list of a component into an index.
func (c *Client) packages(ctx context.Context, x *index, s recipe.Suite, signed *release, component, arch string) error {
	for _, ending := range []string{".xz", ".gz", ""} {
		name := component + "/binary-" + arch + "/Packages" + ending
		want, ok := signed.files[name]
		if !ok {
			continue
		}
		if want.size > maxPackages {
			return fmt.Errorf("%s: %w", name, layer.ErrTooLarge)
		}
		data, err := c.list(ctx, s, name, want)
		if err != nil {
			return err
		}
		defer data.Close()
		plain, done, err := decompress("Packages"+ending, data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer done()
		err = stanzas(io.LimitReader(plain, maxPackages), func(f map[string]string) error {
			d, err := newControl(s.Archive, f)
			if err != nil {
				return err
			}
			return x.add(d)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	return errors.New("the signed list names no Packages file")
}

// list fetches a file that the signed list names into the cache, and opens it.
func (c *Client) list(ctx context.Context, s recipe.Suite, name string, want fileHash) (io.ReadCloser, error) {
	file, err := c.fetch(ctx, s.Archive, "dists/"+s.Suite+"/"+name, want)
	if err != nil {
		return nil, err
	}
	return os.Open(file)
}

// Unpack fetches a package, if it is not in the cache, and puts its files into a tree.
func (c *Client) Unpack(ctx context.Context, p recipe.Package, tree *layer.Tree) error {
	file, err := c.fetch(ctx, p.Archive, p.Path, fileHash{p.SHA256, p.Size})
	if err != nil {
		return fmt.Errorf("package %s: %w", p, err)
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("package %s: %w", p, err)
	}
	if err := errors.Join(unpack(f, tree), f.Close()); err != nil {
		return fmt.Errorf("package %s: %w", p, err)
	}
	return nil
}

// fetch returns a file of the cache whose content has the wanted hash.
func (c *Client) fetch(ctx context.Context, archive, path string, want fileHash) (string, error) {
	file := filepath.Join(c.Cache, want.sha256)
	switch ok, err := has(file, want); {
	case err != nil:
		return "", err
	case ok:
		return file, nil
	}
	if err := os.MkdirAll(c.Cache, 0o755); err != nil { //nolint:gosec // public files
		return "", err
	}
	c.Progress("fetching %s (%d KiB)", path, want.size>>10)
	body, err := c.get(ctx, archive, path)
	if err != nil {
		return "", err
	}
	defer body.Close()
	tmp, err := os.CreateTemp(c.Cache, "partial-*")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, h), io.LimitReader(body, want.size+1))
	if err := errors.Join(err, tmp.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("fetch %s: %w", path, err), os.Remove(tmp.Name()))
	}
	if got := hex.EncodeToString(h.Sum(nil)); n != want.size || got != want.sha256 {
		err := fmt.Errorf("%s is another file than the requested one: %d bytes with SHA256 %s, not %d bytes with %s", path, n, got, want.size, want.sha256)
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return file, os.Rename(tmp.Name(), file)
}

// has reports whether a file of the cache is whole. Cached files are checked again: disks fail and people edit files.
func has(file string, want fileHash) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	return n == want.size && hex.EncodeToString(h.Sum(nil)) == want.sha256, nil
}

func (c *Client) get(ctx context.Context, archive, path string) (io.ReadCloser, error) {
	mirror, ok := c.Mirrors[archive]
	if !ok {
		return nil, fmt.Errorf("no mirror is known for archive %q: this machine's apt uses none; name one with --mirror", archive)
	}
	// Names of files hold plus signs and tildes, which an address keeps as they are.
	u, err := url.Parse(mirror)
	if err != nil {
		return nil, fmt.Errorf("mirror of %s: %w", archive, err)
	}
	u = u.JoinPath(path)
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", u.Redacted(), err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	failed := fmt.Errorf("the mirror responds with %s", resp.Status)
	if slices.Contains([]int{http.StatusNotFound, http.StatusGone}, resp.StatusCode) {
		failed = ErrGone
	}
	return nil, errors.Join(fmt.Errorf("fetch %s: %w", u.Redacted(), failed), resp.Body.Close())
}
