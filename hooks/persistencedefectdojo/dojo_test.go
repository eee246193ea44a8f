// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

const apiKey = "k3y-of-dojo"

// env is what the hook needs at least.
func env(address string, more map[string]string) map[string]string {
	all := map[string]string{"DEFECTDOJO_URL": address + "/", "DEFECTDOJO_APIKEY": apiKey}
	maps.Copy(all, more)
	return all
}

type row = map[string]any

// table is a kind of object in DefectDojo, as its published API describes it.
type table struct {
	rows []row
	// required must be given, allowed may.
	required, allowed []string
	// unique is a field that no two rows share.
	unique string
	// exact are filters that compare whole values; others are parts of texts, as DefectDojo has it.
	exact []string
	// contains are filters that find a part of a text.
	contains []string
}

// dojo is a DefectDojo: strict where the real one is, and where it is silent about mistakes.
type dojo struct {
	tables  map[string]*table
	imports []reimport
	next    int64
	// most is the largest page it gives.
	most int
	// parse makes findings of a report, by scan type.
	parse func(scanType string, report []byte) ([]row, error)
}

type reimport struct {
	form   map[string]string
	report []byte
	file   string
}

func newDojo() *dojo {
	named := func(exact ...string) *table {
		return &table{required: []string{"name"}, contains: []string{"name"}, exact: exact}
	}
	d := &dojo{next: 100, most: 100, parse: parseGeneric, tables: map[string]*table{
		"product_types":       named(),
		"products":            named("prod_type"),
		"tool_types":          named(),
		"tool_configurations": named("tool_type"),
		"engagements":         named("product", "version"),
		"test_types":          named(),
		"tests":               {contains: []string{"title"}, exact: []string{"engagement", "test_type"}},
		"findings":            {contains: []string{"title"}, exact: []string{"test", "is_mitigated"}},
		"endpoints":           {contains: []string{"host"}},
	}}
	d.tables["product_types"].unique, d.tables["products"].unique = "name", "name"
	d.tables["product_types"].allowed = []string{"description", "critical_product", "key_product"}
	d.tables["products"].required = []string{"name", "description", "prod_type"}
	d.tables["products"].allowed = []string{"tags"}
	d.tables["tool_types"].allowed = []string{"description"}
	d.tables["tool_configurations"].required = []string{"name", "tool_type"}
	d.tables["tool_configurations"].allowed = []string{"description", "url", "configuration_url"}
	d.tables["engagements"].required = []string{"product", "target_start", "target_end"}
	d.tables["engagements"].allowed = []string{"name", "lead", "description", "status", "engagement_type", "tags", "version", "branch_tag", "deduplication_on_engagement", "orchestration_engine"}
	d.tables["tests"].required = []string{"engagement", "test_type", "target_start", "target_end"}
	d.tables["tests"].allowed = []string{"title", "description", "lead", "percent_complete", "version", "environment", "tags"}
	d.tables["product_types"].rows = []row{{"id": int64(1), "name": "Research and Development"}}
	for i, name := range []string{"Nmap Scan", "Generic Findings Import", "Trivy Scan", "Trivy Operator Scan"} {
		d.tables["test_types"].rows = append(d.tables["test_types"].rows, row{"id": int64(10 + i), "name": name})
	}
	return d
}

func failed(status int, format string, args ...any) sdktest.Reply {
	body, _ := json.Marshal(row{"detail": fmt.Sprintf(format, args...)}) // a text always encodes
	return sdktest.Reply{Status: status, Header: map[string]string{"Content-Type": "application/json"}, Body: string(body)}
}

func success(status int, v any) sdktest.Reply {
	body, err := json.Marshal(v)
	if err != nil {
		return failed(500, "%v", err)
	}
	return sdktest.Reply{Status: status, Header: map[string]string{"Content-Type": "application/json"}, Body: string(body)}
}

func (d *dojo) serve(_ int, r sdktest.Request) sdktest.Reply {
	if r.Header.Get("Authorization") != "Token "+apiKey {
		return failed(401, "Invalid token.")
	}
	address, err := url.Parse(r.URL)
	path, ok := strings.CutPrefix(address.Path, "/api/v2/")
	if err != nil || !ok || !strings.HasSuffix(path, "/") {
		return failed(404, "no such address: %s", r.URL)
	}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	switch t := d.tables[parts[0]]; {
	case path == "user_profile/" && r.Method == http.MethodGet:
		return success(200, row{"user": row{"id": 7, "username": "scanner"}})
	case path == "reimport-scan/" && r.Method == http.MethodPost:
		return d.reimport(r)
	case t == nil:
		return failed(404, "no such address: %s", r.URL)
	case len(parts) == 2 && r.Method == http.MethodGet:
		return t.get(parts[1])
	case len(parts) == 1 && r.Method == http.MethodGet:
		return d.list(t, parts[0], address)
	case len(parts) == 1 && r.Method == http.MethodPost && t.required != nil && parts[0] != "test_types":
		return d.create(t, r)
	}
	return failed(405, "Method %s not allowed.", r.Method)
}

func (t *table) get(id string) sdktest.Reply {
	for _, r := range t.rows {
		if fmt.Sprint(r["id"]) == id {
			return success(200, r)
		}
	}
	return failed(404, "Not found.")
}

func (d *dojo) list(t *table, kind string, address *url.URL) sdktest.Reply {
	query := address.Query()
	limit, err1 := strconv.Atoi(query.Get("limit"))
	offset, err2 := strconv.Atoi(cmp.Or(query.Get("offset"), "0"))
	if err1 != nil || err2 != nil || limit < 1 || offset < 0 {
		return failed(400, "bad page: %s", address.RawQuery)
	}
	limit = min(limit, d.most)
	var found []row
	for _, r := range t.rows {
		fits := true
		for name := range query {
			value := query.Get(name)
			switch {
			case slices.Contains([]string{"limit", "offset", "prefetch", "o"}, name):
			case slices.Contains(t.exact, name):
				fits = fits && fmt.Sprint(r[name]) == value
			case slices.Contains(t.contains, name):
				fits = fits && strings.Contains(strings.ToLower(fmt.Sprint(r[name])), strings.ToLower(value))
			default:
				return failed(400, "unknown filter %s of %s", name, kind)
			}
		}
		if fits {
			found = append(found, r)
		}
	}
	page := found[min(offset, len(found)):min(offset+limit, len(found))]
	answer := row{"count": len(found), "next": nil, "previous": nil, "results": append([]row{}, page...)}
	if offset+limit < len(found) {
		query.Set("offset", strconv.Itoa(offset+limit))
		answer["next"] = "http://dojo.example" + address.Path + "?" + query.Encode()
	}
	if query.Get("prefetch") == "endpoints" {
		endpoints := row{}
		for _, e := range d.tables["endpoints"].rows[:len(d.tables["endpoints"].rows)/2] { // an older one gives none
			endpoints[fmt.Sprint(e["id"])] = e
		}
		answer["prefetch"] = row{"endpoints": endpoints}
	}
	return success(200, answer)
}

func (d *dojo) create(t *table, r sdktest.Request) sdktest.Reply {
	var body row
	if err := json.Unmarshal(r.Body, &body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		return failed(400, "JSON parse error")
	}
	for _, name := range t.required {
		if v, ok := body[name]; !ok || v == "" || v == nil {
			return success(400, row{name: []string{"This field is required."}})
		}
	}
	for name, value := range body {
		if !slices.Contains(t.required, name) && !slices.Contains(t.allowed, name) {
			return failed(400, "unknown field %s", name)
		}
		if name == "target_start" || name == "target_end" {
			_, isTime := time.Parse(time.RFC3339, fmt.Sprint(value))
			_, isDate := time.Parse(time.DateOnly, fmt.Sprint(value))
			if (t == d.tables["tests"]) != (isTime == nil) || (t == d.tables["engagements"]) != (isDate == nil) {
				return failed(400, "%s has the wrong format", name)
			}
		}
		if f, ok := value.(float64); ok {
			body[name] = int64(f)
		}
	}
	if t.unique != "" {
		for _, other := range t.rows {
			if other[t.unique] == body[t.unique] {
				return success(400, row{t.unique: []string{"object with this name already exists."}})
			}
		}
	}
	d.next++
	body["id"] = d.next
	t.rows = append(t.rows, body)
	return success(201, body)
}

// formFields are those that DefectDojo knows of a reimport. It passes over others without a word; here they are errors.
var formFields = []string{"test", "scan_type", "scan_date", "lead", "close_old_findings", "minimum_severity", "version"}

func readForm(r sdktest.Request) (reimport, error) {
	in := reimport{form: map[string]string{}}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return in, fmt.Errorf("content type %q", r.Header.Get("Content-Type"))
	}
	form := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return in, nil
		}
		if err != nil {
			return in, err
		}
		content, err := io.ReadAll(part)
		switch {
		case err != nil:
			return in, err
		case part.FormName() == "file":
			in.report, in.file = content, part.FileName()
		case !slices.Contains(formFields, part.FormName()):
			return in, fmt.Errorf("unknown field %s", part.FormName())
		default:
			in.form[part.FormName()] = string(content)
		}
	}
}

func (d *dojo) reimport(r sdktest.Request) sdktest.Reply {
	in, err := readForm(r)
	if err != nil {
		return failed(400, "%v", err)
	}
	for _, name := range formFields[:5] {
		if in.form[name] == "" {
			return success(400, row{name: []string{"This field is required."}})
		}
	}
	if in.file == "" {
		return failed(400, "Uploading a Report File is required")
	}
	if at, err := time.Parse(time.DateOnly, in.form["scan_date"]); err != nil || at.Year() < 2000 {
		return failed(400, "scan_date %q", in.form["scan_date"])
	}
	test, err := strconv.ParseInt(in.form["test"], 10, 64)
	if err != nil || d.find("tests", "id", test) == nil {
		return failed(404, "Test %q not found", in.form["test"])
	}
	kind := d.find("test_types", "id", d.find("tests", "id", test)["test_type"])
	if kind["name"] != in.form["scan_type"] {
		return failed(400, "scan type %q does not fit the test", in.form["scan_type"])
	}
	found, err := d.parse(in.form["scan_type"], in.report)
	if err != nil {
		return failed(400, "%v", err)
	}
	d.imports = append(d.imports, in)
	d.merge(test, found)
	return success(201, row{"test_id": test, "test": test, "statistics": row{"after": row{}}})
}

func (d *dojo) find(kind, field string, value any) row {
	for _, r := range d.tables[kind].rows {
		if r[field] == value {
			return r
		}
	}
	return nil
}

// merge is what a reimport does: known findings stay, new ones come, those that are gone are closed.
func (d *dojo) merge(test int64, found []row) {
	key := func(r row) string { return fmt.Sprint(r["title"], "|", r["description"], "|", r["severity"]) }
	here := map[string]row{}
	for _, r := range d.tables["findings"].rows {
		if r["test"] == test {
			here[key(r)] = r
			r["is_mitigated"] = true
		}
	}
	for _, f := range found {
		if old := here[key(f)]; old != nil {
			old["is_mitigated"] = false
			continue
		}
		d.next++
		f["id"], f["test"], f["is_mitigated"], f["created"] = d.next, test, false, "2030-01-01T12:00:00Z"
		for _, name := range []string{"duplicate", "false_p", "risk_accepted", "out_of_scope"} {
			if f[name] == nil {
				f[name] = false
			}
		}
		here[key(f)] = f
		d.tables["findings"].rows = append(d.tables["findings"].rows, f)
	}
}

func (d *dojo) endpoint(protocol, host string, port any) int64 {
	d.next++
	d.tables["endpoints"].rows = append(d.tables["endpoints"].rows, row{"id": d.next, "protocol": protocol, "host": host, "port": port, "path": nil})
	return d.next
}

// parseGeneric is as strict as the generic parser: unknown fields are errors, three must be there.
func parseGeneric(scanType string, report []byte) ([]row, error) {
	if scanType != genericImport {
		return nil, fmt.Errorf("no parser for %s", scanType)
	}
	var in struct {
		Findings []struct {
			Title       string   `json:"title"`
			Description string   `json:"description"`
			Severity    string   `json:"severity"`
			Date        string   `json:"date"`
			UniqueID    string   `json:"unique_id_from_tool"`
			Endpoints   []string `json:"endpoints"`
		} `json:"findings"`
	}
	decoder := json.NewDecoder(bytes.NewReader(report))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return nil, err
	}
	var rows []row
	for _, f := range in.Findings {
		if !slices.Contains([]string{"Info", "Low", "Medium", "High", "Critical"}, f.Severity) {
			return nil, fmt.Errorf("severity %q", f.Severity)
		}
		if _, err := time.Parse(time.DateOnly, f.Date); err != nil {
			return nil, err
		}
		rows = append(rows, row{"title": f.Title, "description": f.Description, "severity": f.Severity, "unique_id_from_tool": f.UniqueID})
	}
	return rows, nil
}
