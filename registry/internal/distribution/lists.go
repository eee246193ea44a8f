// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

const (
	pageSize  = 1000
	maxPage   = 4 << 20
	maxNames  = 100_000
	maxTags   = 200_000
	catalog   = "_catalog"
	lastParam = "last"
)

// The codes of a listing that ended early.
const (
	CatalogLoop = "CatalogLoop"
	TagLoop     = "TagLoop"
	// ListTooLong: the registry has more than we take.
	ListTooLong = "ListTooLong"
	// ForeignLink: the next page is said to be at another host.
	ForeignLink = "ForeignLink"
)

// Page is a part of a list.
type Page struct {
	// Names are those that no page before had.
	Names []string
	// Cursor continues behind this page.
	Cursor string
}

// Listing is how a list ended: complete, or with a code that says why it did not.
type Listing struct {
	Complete bool
	Code     string
}

// list is a kind of list.
type list struct {
	url        *url.URL
	repository string
	loop       string
	most       int
	read       func(body []byte) ([]string, bool)
}

// Tags lists the tags of a repository behind a cursor, "" for all. Each page is given to take, whose error ends the list.
func (c *Client) Tags(ctx context.Context, repository, cursor string, take func(Page) error) (Listing, error) {
	return c.pages(ctx, list{url: c.at(repository + "/tags/list"), repository: repository, loop: TagLoop, most: maxTags, read: readTags}, cursor, take)
}

// Catalog lists the repositories of a registry behind a cursor. The reasons of its errors are those of CatalogAvailable where the
// registry refuses.
func (c *Client) Catalog(ctx context.Context, cursor string, take func(Page) error) (Listing, error) {
	listing, err := c.pages(ctx, list{url: c.at(catalog), loop: CatalogLoop, most: maxNames, read: readRepositories}, cursor, take)
	switch e, _ := err.(*Error); { //nolint:errorlint // an error of take is wrapped by nobody, and passed on as it is
	case e == nil:
	case e.Reason == Unauthorized && e.Detail != ForeignRealm, e.Reason == Forbidden:
		return listing, &Error{Reason: CatalogForbidden, Status: e.Status, Detail: e.Detail}
	case e.Reason == NotFound, e.Reason == RepositoryGone, e.Status == http.StatusMethodNotAllowed, e.Status == http.StatusNotImplemented:
		return listing, &Error{Reason: CatalogNotSupported, Status: e.Status, Detail: e.Detail}
	}
	return listing, err
}

func readTags(body []byte) ([]string, bool) {
	var page struct {
		Tags []string `json:"tags"`
	}
	return page.Tags, json.Unmarshal(body, &page) == nil || json.Unmarshal(body, &page.Tags) == nil
}

func readRepositories(body []byte) ([]string, bool) {
	var page struct {
		Repositories []string `json:"repositories"`
	}
	return page.Repositories, json.Unmarshal(body, &page) == nil
}

func (c *Client) pages(ctx context.Context, l list, cursor string, take func(Page) error) (Listing, error) {
	seen := map[string]bool{}
	linked := false
	for at := behind(l.url, cursor); ; {
		a, err := c.send(ctx, request{method: http.MethodGet, url: at, repository: l.repository, limit: maxPage + 1})
		if err != nil {
			return Listing{}, err
		}
		names, ok := l.read(a.body)
		switch {
		case a.status != http.StatusOK:
			return Listing{}, refused(a)
		case len(a.body) > maxPage:
			return Listing{Code: ListTooLong}, nil
		case !ok:
			return Listing{}, &Error{Reason: NoRegistry, Status: a.status, Detail: "the list cannot be read"}
		}
		fresh := unseen(seen, names, l.most)
		next, foreign := nextPage(a.header.Values("Link"), at)
		linked = linked || next != nil
		if next == nil && !linked && !foreign && len(names) == pageSize && len(fresh) > 0 {
			next = behind(l.url, names[len(names)-1])
		}
		if len(fresh) > 0 {
			if err := take(Page{Names: fresh, Cursor: cursorOf(next, names)}); err != nil {
				return Listing{}, err
			}
		}
		switch {
		case foreign:
			return Listing{Code: ForeignLink}, nil
		case len(seen) >= l.most && (next != nil || len(fresh) < len(names)):
			return Listing{Code: ListTooLong}, nil
		case next == nil:
			return Listing{Complete: true}, nil
		case len(fresh) == 0:
			return Listing{Code: l.loop}, nil
		}
		at = next
	}
}

// behind gives the page behind a name.
func behind(u *url.URL, last string) *url.URL {
	page := *u
	query := url.Values{"n": {strconv.Itoa(pageSize)}}
	if last != "" {
		query.Set(lastParam, last)
	}
	page.RawQuery = query.Encode()
	return &page
}

// cursorOf gives what continues behind a page: what the registry says, else the last name.
func cursorOf(next *url.URL, names []string) string {
	if next != nil {
		if last := next.Query().Get(lastParam); last != "" {
			return last
		}
	}
	return names[len(names)-1]
}

// unseen notes names and gives the new ones, as long as there are not too many.
func unseen(seen map[string]bool, names []string, most int) []string {
	fresh := make([]string, 0, len(names))
	for _, name := range names {
		if !seen[name] && len(seen) < most {
			seen[name] = true
			fresh = append(fresh, name)
		}
	}
	return fresh
}
