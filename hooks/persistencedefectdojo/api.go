// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// pageSize is how many entries of a list are asked for at once.
const pageSize = 100

// errTooMany says that a list is longer than may be read of it.
var errTooMany = errors.New("the list is longer than DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS allows to read")

// api is DefectDojo's REST API, version 2.
type api struct {
	address string
	header  http.Header
	pages   int
	client  *delivery.Client // repeats
	once    *delivery.Client // does not
	long    *delivery.Client // repeats, and waits longer for an answer
}

func (a *api) url(path string, query url.Values) string {
	address := a.address + "/api/v2/" + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// link is an address for people.
func (a *api) link(kind string, id int64) string {
	return a.address + "/" + kind + "/" + strconv.FormatInt(id, 10)
}

// get reads one object. It says whether there is one.
func (a *api) get(ctx context.Context, path string, into any) (bool, error) {
	answer, err := a.client.Do(ctx, &delivery.Request{
		Method: http.MethodGet, URL: a.url(path, nil), Header: a.header, Accept: []int{http.StatusNotFound},
	})
	if err != nil {
		return false, fmt.Errorf("get %s: %w", path, err)
	}
	if answer.Status == http.StatusNotFound {
		return false, nil
	}
	if err := answer.JSON(into); err != nil {
		return false, fmt.Errorf("get %s: %w", path, err)
	}
	return true, nil
}

// page is one answer to a question for a list.
type page struct {
	Next     *string           `json:"next"`
	Results  []json.RawMessage `json:"results"`
	Prefetch json.RawMessage   `json:"prefetch"`
}

func (a *api) pageRequest(path string, query url.Values, number int) *delivery.Request {
	full := url.Values{"limit": {strconv.Itoa(pageSize)}, "offset": {strconv.Itoa(number * pageSize)}}
	maps.Copy(full, query)
	return &delivery.Request{Method: http.MethodGet, URL: a.url(path, full), Header: a.header}
}

// eachPage reads a list page by page, from the page of this number on.
func (a *api) eachPage(ctx context.Context, path string, query url.Values, from int, do func(*page) error) error {
	for number := from; ; number++ {
		if number >= a.pages {
			return fmt.Errorf("list %s: %w (%d pages)", path, errTooMany, a.pages)
		}
		answer, err := a.client.Do(ctx, a.pageRequest(path, query, number))
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		more, err := onPage(answer, do)
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		if !more {
			return nil
		}
	}
}

func onPage(answer *delivery.Answer, do func(*page) error) (more bool, err error) {
	var p page
	if err := answer.JSON(&p); err != nil {
		return false, err
	}
	return p.Next != nil && *p.Next != "", do(&p)
}

// entity is something that is found in a list or made.
type entity struct {
	// kind is what it is called in sentences.
	kind, name string
	path       string
	query      url.Values
	matches    func(*named) bool
	// body makes it. Nil makes nothing.
	body any
}

// named is what all entities have in common, with the fields that distinguish them.
type named struct {
	ID       int64   `json:"id"`
	Name     *string `json:"name"`
	Title    *string `json:"title"`
	Version  *string `json:"version"`
	TestType int64   `json:"test_type"`
	ProdType int64   `json:"prod_type"`
}

func (n *named) isCalled(name string) bool { return n.Name != nil && *n.Name == name }

var errMissing = errors.New("there is none of this name")

// ensure finds an entity or makes it. A creation that failed may have happened nevertheless, so it is looked for again
// before it is repeated: the search is the request that is repeated, and the creation belongs to it.
func (a *api) ensure(ctx context.Context, e entity) (id int64, err error) {
	var creating error
	request := a.pageRequest(e.path, e.query, 0)
	request.Check = func(answer *delivery.Answer) error {
		creating = nil
		if id, err = a.oldest(ctx, e, answer); err != nil || id != 0 {
			return err
		}
		if id, creating = a.create(ctx, e); creating == nil {
			return nil
		}
		if after, again := delivery.MayPass(creating); again {
			return delivery.TryAgain(creating, after)
		}
		return creating
	}
	_, err = a.client.Do(ctx, request)
	if creating != nil {
		err = creating
	}
	if err != nil {
		return 0, fmt.Errorf("%s %q: %w", e.kind, e.name, err)
	}
	return id, nil
}

// oldest finds the entity of the smallest id, beginning with a page that was read already; 0 if there is none.
func (a *api) oldest(ctx context.Context, e entity, first *delivery.Answer) (id int64, err error) {
	look := func(p *page) error {
		for _, raw := range p.Results {
			var n named
			if err := json.Unmarshal(raw, &n); err != nil {
				return fmt.Errorf("the response is not the expected JSON: %w", err)
			}
			if e.matches(&n) && (id == 0 || n.ID < id) {
				id = n.ID
			}
		}
		return nil
	}
	from := 0
	if first != nil {
		more, err := onPage(first, look)
		if err != nil || !more {
			return id, err
		}
		from = 1
	}
	return id, a.eachPage(ctx, e.path, e.query, from, look)
}

// create makes an entity once and returns the id of the entity: its own, or the id of a faster client's.
func (a *api) create(ctx context.Context, e entity) (int64, error) {
	if e.body == nil {
		return 0, errMissing
	}
	body, err := delivery.JSON(e.body)
	if err != nil {
		return 0, err
	}
	header := a.header.Clone()
	header.Set("Content-Type", "application/json")
	_, refused := a.once.Do(ctx, &delivery.Request{URL: a.url(e.path, nil), Header: header, Body: body})
	if status, ok := errors.AsType[*delivery.StatusError](refused); refused != nil && (!ok || status.Status != http.StatusBadRequest) {
		return 0, fmt.Errorf("create: %w", refused)
	}
	// A 400 may mean that the name is taken since a moment ago.
	id, err := a.oldest(ctx, e, nil)
	switch {
	case err != nil:
		return 0, err
	case id == 0 && refused != nil:
		return 0, fmt.Errorf("create: %w", refused)
	case id == 0:
		return 0, errors.New("create: DefectDojo took it and does not list it; the user may lack the right to see it")
	}
	return id, nil
}
