// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// defaultProductType is made by DefectDojo's own installation.
const defaultProductType = 1

// developmentEnvironment is made by DefectDojo's own installation as well.
const developmentEnvironment = 1

// What a tool configuration says that imports come from, in the words that are in the databases of users already.
const (
	toolType   = "Security Test Orchestration Engine"
	toolName   = "secureCodeBox"
	toolSource = "https://github.com/secureCodeBox"
)

// resolver finds or makes the place that a target names.
type resolver struct {
	api           *api
	target        *target
	lowPrivileged bool
	now           time.Time
}

// place is where results go, by id.
type place struct {
	user, test int64
}

func (r *resolver) resolve(ctx context.Context) (*place, error) {
	user, err := r.user(ctx)
	if err != nil {
		return nil, err
	}
	productType, err := r.productType(ctx)
	if err != nil {
		return nil, err
	}
	product, err := r.product(ctx, productType)
	if err != nil {
		return nil, err
	}
	tool, err := r.tool(ctx)
	if err != nil {
		return nil, err
	}
	engagement, err := r.engagement(ctx, product, user, tool)
	if err != nil {
		return nil, err
	}
	test, err := r.test(ctx, engagement, user)
	if err != nil {
		return nil, err
	}
	return &place{user: user, test: test}, nil
}

func (r *resolver) user(ctx context.Context) (int64, error) {
	var profile struct {
		User struct {
			ID int64 `json:"id"`
		} `json:"user"`
	}
	found, err := r.api.get(ctx, "user_profile/", &profile)
	if err != nil {
		return 0, err
	}
	if !found || profile.User.ID == 0 {
		return 0, errors.New("get user_profile/: there is no DefectDojo API version 2 at DEFECTDOJO_URL")
	}
	return profile.User.ID, nil
}

func (r *resolver) productType(ctx context.Context) (int64, error) {
	name := r.target.productType
	if name == "" {
		return defaultProductType, nil
	}
	e := entity{
		kind: "product type", name: name, path: "product_types/", query: url.Values{"name": {name}},
		matches: func(n *named) bool { return n.isCalled(name) },
	}
	if !r.lowPrivileged {
		e.body = map[string]any{"name": name}
	}
	id, err := r.api.ensure(ctx, e)
	if errors.Is(err, errMissing) {
		return 0, fmt.Errorf("%w, and DEFECTDOJO_LOW_PRIVILEGED_MODE does not make it: create it and make the user its maintainer", err)
	}
	return id, err
}

func (r *resolver) product(ctx context.Context, productType int64) (int64, error) {
	name := r.target.product
	e := entity{
		kind: "product", name: name, path: "products/",
		query:   url.Values{"name": {name}, "prod_type": {strconv.FormatInt(productType, 10)}},
		matches: func(n *named) bool { return n.isCalled(name) && n.ProdType == productType },
		body: withTags(map[string]any{
			"name": name, "description": r.target.productDescription, "prod_type": productType,
		}, r.target.productTags),
	}
	id, err := r.api.ensure(ctx, e)
	if err == nil {
		return id, nil
	}
	// Names of products are unique in all product types, which DefectDojo does not say this clearly.
	elsewhere := entity{path: "products/", query: url.Values{"name": {name}}, matches: func(n *named) bool { return n.isCalled(name) }}
	if other, lookErr := r.api.oldest(ctx, elsewhere, nil); lookErr == nil && other != 0 {
		err = fmt.Errorf("%w; there is one of this name in another product type, which the annotation %sproduct-type-name can name", err, annotationPrefix)
	}
	return 0, err
}

// tool is the configuration that engagements name as where they come from, 0 for none.
func (r *resolver) tool(ctx context.Context) (int64, error) {
	if r.lowPrivileged {
		return 0, nil
	}
	kind, err := r.api.ensure(ctx, entity{
		kind: "tool type", name: toolType, path: "tool_types/", query: url.Values{"name": {toolType}},
		matches: func(n *named) bool { return n.isCalled(toolType) },
		body:    map[string]any{"name": toolType, "description": toolType},
	})
	if err != nil {
		return 0, fmt.Errorf("%w (DEFECTDOJO_LOW_PRIVILEGED_MODE does without)", err)
	}
	id, err := r.api.ensure(ctx, entity{
		kind: "tool configuration", name: toolName, path: "tool_configurations/", query: url.Values{"name": {toolName}},
		matches: func(n *named) bool { return n.isCalled(toolName) },
		body: map[string]any{
			"name": toolName, "description": toolName, "tool_type": kind, "url": toolSource, "configuration_url": toolSource,
		},
	})
	if err != nil {
		return 0, fmt.Errorf("%w (DEFECTDOJO_LOW_PRIVILEGED_MODE does without)", err)
	}
	return id, nil
}

func (r *resolver) engagement(ctx context.Context, product, user, tool int64) (int64, error) {
	t := r.target
	query := url.Values{"product": {strconv.FormatInt(product, 10)}, "name": {t.engagement}}
	body := withTags(map[string]any{
		"name": t.engagement, "product": product, "lead": user, "description": "",
		"target_start": r.now.Format(time.DateOnly), "target_end": r.now.Format(time.DateOnly),
		"status": "In Progress", "engagement_type": "CI/CD", "deduplication_on_engagement": t.dedupeOnEngagement,
	}, t.engagementTags)
	if t.version != "" {
		query.Set("version", t.version)
		body["version"], body["branch_tag"] = t.version, t.version
	}
	if tool != 0 {
		body["orchestration_engine"] = tool
	}
	return r.api.ensure(ctx, entity{
		kind: "engagement", name: t.engagement, path: "engagements/", query: query, body: body,
		matches: func(n *named) bool {
			return n.isCalled(t.engagement) && (t.version == "" || n.Version != nil && *n.Version == t.version)
		},
	})
}

func (r *resolver) test(ctx context.Context, engagement, user int64) (int64, error) {
	t := r.target
	kind, err := r.api.ensure(ctx, entity{
		kind: "test type", name: t.scanType, path: "test_types/", query: url.Values{"name": {t.scanType}},
		matches: func(n *named) bool { return n.isCalled(t.scanType) },
	})
	if err != nil {
		return 0, fmt.Errorf("%w (this DefectDojo has no such parser)", err)
	}
	body := map[string]any{
		"title": t.testTitle, "description": t.testDescription, "test_type": kind, "engagement": engagement, "lead": user,
		"target_start": r.now.Format(time.RFC3339), "target_end": r.now.Format(time.RFC3339),
		"percent_complete": 100, "environment": developmentEnvironment,
	}
	if t.version != "" {
		body["version"] = t.version
	}
	return r.api.ensure(ctx, entity{
		kind: "test", name: t.testTitle, path: "tests/", body: body,
		query: url.Values{
			"engagement": {strconv.FormatInt(engagement, 10)}, "test_type": {strconv.FormatInt(kind, 10)}, "title": {t.testTitle},
		},
		matches: func(n *named) bool { return n.Title != nil && *n.Title == t.testTitle && n.TestType == kind },
	})
}

func withTags(body map[string]any, tags []string) map[string]any {
	if len(tags) > 0 {
		body["tags"] = tags
	}
	return body
}
