// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/filter"
)

var now = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

const (
	digest1 = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	digest2 = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	digest3 = "sha256:3333333333333333333333333333333333333333333333333333333333333333"
)

// compile reads a filter as JSON.
func compile(t testing.TB, text string) *filter.Compiled {
	t.Helper()
	var f registryv1alpha1.Filter
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	compiled, err := filter.Compile(f)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// tag reads "name", "name@day" or "name@day#digest"; day is a month and a day of 2025, perhaps with a year before.
func tag(t testing.TB, text string) filter.Tag {
	t.Helper()
	text, digest, _ := strings.Cut(text, "#")
	name, date, dated := strings.Cut(text, "@")
	result := filter.Tag{Name: name, Digest: map[string]string{"1": digest1, "2": digest2, "3": digest3}[digest]}
	switch {
	case date == "zone":
		result.Created = time.Date(2025, 8, 25, 23, 0, 0, 0, time.FixedZone("", 2*60*60))
	case dated && date != "":
		if strings.Count(date, "-") == 1 {
			date = "2025-" + date
		}
		created, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		result.Created = created
	}
	return result
}

func tags(t testing.TB, text string) []filter.Tag {
	t.Helper()
	var list []filter.Tag
	for one := range strings.FieldsSeq(text) {
		list = append(list, tag(t, one))
	}
	return list
}

// told writes an answer as "selected…; tag=Reason…; Warning:count…".
func told(a filter.Answer) string {
	var skipped, warnings []string
	for _, name := range slices.Sorted(maps.Keys(a.Skipped)) {
		skipped = append(skipped, name+"="+string(a.Skipped[name]))
	}
	for _, w := range a.Warnings {
		warnings = append(warnings, fmt.Sprintf("%s:%d", w.Code, w.Count))
	}
	return strings.TrimRight(strings.Join([]string{strings.Join(a.Selected, " "), strings.Join(skipped, " "), strings.Join(warnings, " ")}, "; "), "; ")
}

func TestSelect(t *testing.T) {
	referrer := "sha256-" + strings.Repeat("a", 64)
	for name, test := range map[string]struct {
		filter, repository, tags, want string
	}{
		"Everything":       {`{}`, "", "b a", "a b"},
		"BadTags":          {`{}`, "", ".a a/b " + strings.Repeat("x", 129) + " ok", "ok; .a=InvalidTag a/b=InvalidTag " + strings.Repeat("x", 129) + "=InvalidTag; InvalidTag:3"},
		"Referrers":        {`{}`, "", referrer + " " + referrer + ".sig sha256-abc " + referrer + ".SIG", referrer + ".SIG sha256-abc; " + referrer + "=ReferrerTag " + referrer + ".sig=ReferrerTag"},
		"Twice":            {`{}`, "", "a a", "a"},
		"IncludeExclude":   {`{"tags":{"include":["stable*"],"exclude":["*-amd64"]}}`, "", "stable stable-2 stable-2-amd64 Stable", "stable stable-2; Stable=NotIncluded stable-2-amd64=Excluded"},
		"QuestionMark":     {`{"tags":{"include":["v?.?"]}}`, "", "v1.2 v1.23 v1x2", "v1.2; v1.23=NotIncluded v1x2=NotIncluded"},
		"Tilde":            {`{"tags":{"semver":{"range":"~7.4"}}}`, "", "7.3.9 7.4 7.4.12 7.4.13-dev seven", "7.4 7.4.12; 7.3.9=OutOfRange 7.4.13-dev=Prerelease seven=NotAVersion"},
		"Versions":         {`{"tags":{"semver":{}}}`, "", "1 1.2 v1.2 V1.2 1.2.3.4 01.02.03 1.2.3_build.5 1.2.3_ 1.2-rc 18446744073709551616.0 18446744073709551615.0", "01.02.03 1.2 1.2.3_build.5 18446744073709551615.0 v1.2; 1=NotAVersion 1.2-rc=Prerelease 1.2.3.4=NotAVersion 1.2.3_=NotAVersion 18446744073709551616.0=NotAVersion V1.2=NotAVersion"},
		"OddVersions":      {`{"tags":{"semver":{"prereleases":true}}}`, "", "1.2.3-- 1.2.3-0 1.2.3-00 1.2.3-0a 1.2.3-a_b.1-2 1.2.3_a_b 1.2.3_.a 1.2.3- 1.2. 1..2 1.2-a.b vv1.2 v1.-2 1_2.3 1.2_3 1.2.3-1.0", "1.2-a.b 1.2.3-- 1.2.3-0 1.2.3-0a 1.2.3-1.0 1.2.3-a_b.1-2 1.2_3; 1..2=NotAVersion 1.2.=NotAVersion 1.2.3-=NotAVersion 1.2.3-00=NotAVersion 1.2.3_.a=NotAVersion 1.2.3_a_b=NotAVersion 1_2.3=NotAVersion v1.-2=NotAVersion vv1.2=NotAVersion"},
		"Prereleases":      {`{"tags":{"semver":{"range":">=1.2.0-rc.2 <1.3","prereleases":true}}}`, "", "1.2.0-rc.1 1.2.0-rc.2 1.2.0-rc.10 1.2.1-a 1.3.0-a 1.3.0 1.2.0-rc.01 1.2.0-rc..1", "1.2.0-rc.10 1.2.0-rc.2 1.2.1-a 1.3.0-a; 1.2.0-rc..1=NotAVersion 1.2.0-rc.01=NotAVersion 1.2.0-rc.1=OutOfRange 1.3.0=OutOfRange"},
		"PrereleaseOfAny":  {`{"tags":{"semver":{"prereleases":true}}}`, "", "1.2.0-rc.1", "1.2.0-rc.1"},
		"Expression":       {`{"tags":{"expression":"semver(tag).major() > 5"}}`, "", "6.0.0 5.9.9 tip", "6.0.0; 5.9.9=ExpressionFalse tip=ExpressionError; ExpressionError:1"},
		"ExpressionSelect": {`{"tags":{"expression":"semver(tag).major() > 5","onError":"Select"}}`, "", "6.0.0 5.9.9 tip", "6.0.0 tip; 5.9.9=ExpressionFalse; ExpressionError:1"},
		"ExpressionDates":  {`{"tags":{"expression":"hasCreated && now - created < duration('240h') || !hasCreated && created == timestamp(0)"}}`, "", "x@08-25 y@08-01 z old@1985-01-01", "old x z; y=ExpressionFalse"},
		"ExpressionNames":  {`{"tags":{"expression":"repository == 'shop/app' && registry == 'registry.example.com' && tag.lowerAscii() == 'a' && digest.startsWith('sha256:1')"}}`, "shop/app", "A@#1 a", "A; a=ExpressionFalse"},
		// Hours are those of UTC, whatever zone a date was written in, and a bool is one however it comes to be.
		"ExpressionZone":     {`{"tags":{"expression":"hasCreated && created.getHours() == 21 && now.getHours() == 0"}}`, "", "x@zone", "x"},
		"ExpressionBool":     {`{"tags":{"expression":"[tag == 'a'][0] || {'b': tag == 'b'}['b'] || (tag == 'c' ? true : false)"}}`, "", "a b c d", "a b c; d=ExpressionFalse"},
		"ExpressionMap":      {`{"tags":{"expression":"platforms.exists(p, p.startsWith('linux/')) || size(tag) > 1"}}`, "", "a bb", "bb; a=ExpressionFalse"},
		"ExpressionBadRE":    {`{"tags":{"expression":"tag.matches(tag)"}}`, "", "a.b __", "__ a.b"},
		"NewestTieAll":       {`{"tags":{"newest":1,"newestBy":"SemVer"}}`, "", "1.0@01-01#1 v1.0.0@01-01#2 01.0@01-01#3", "v1.0.0; 01.0=NotNewest 1.0=NotNewest"},
		"NewestGroupDate":    {`{"tags":{"newest":1}}`, "", "a@01-01#1 b@03-01#1 c@02-01#2", "a b; c=NotNewest"},
		"NewestNamedApart":   {`{"repositories":["ops/db","ops/db:b"],"tags":{"newest":1}}`, "ops/db", "a@01-01#1 b@01-01#1 c@02-01#2", "b c; a=NotNewest"},
		"RangeOr":            {`{"tags":{"semver":{"range":"1.x || >=3.1 <3.3, !=3.2.0"}}}`, "", "1.9 2.0 3.1 3.2 3.2.1 3.3", "1.9 3.1 3.2.1; 2.0=OutOfRange 3.2=OutOfRange 3.3=OutOfRange"},
		"Flavour":            {`{"tags":{"semver":{"range":"^1.27","prereleases":true}}}`, "", "1.27-alpine 1.27.1-alpine 1.28.0-0 2.0.0-rc.1", "1.27.1-alpine 1.28.0-0; 1.27-alpine=OutOfRange 2.0.0-rc.1=OutOfRange"},
		"ExpressionTooDear":  {`{"tags":{"expression":"[1,2,3,4,5,6,7,8,9,0].all(a, [1,2,3,4,5,6,7,8,9,0].all(b, [1,2,3,4,5,6,7,8,9,0].all(c, [1,2,3,4,5,6,7,8,9,0].all(d, [1,2,3,4,5,6,7,8,9,0].all(e, tag != 'b')))))"}}`, "", "a", "; a=ExpressionError; ExpressionError:1 NothingSelected:1"},
		"MaxAge":             {`{"tags":{"maxAge":"10d"}}`, "", "x@08-25 y@08-01 z same@08-22", "same x z; y=TooOld; CreatedUnknown:1"},
		"Future":             {`{"tags":{"maxAge":"10d"}}`, "", "x@09-02", "x; ; CreatedInFuture:1 CreatedUnknown:1"},
		"NoDatesAsked":       {`{}`, "", "x@09-02 y", "x y"},
		"Newest":             {`{"tags":{"newest":2}}`, "", "a@01-01#1 b@02-01#2 c@02-01#2 d@03-01#3", "b c d; a=NotNewest"},
		"NewestUnknownDates": {`{"tags":{"newest":2}}`, "", "a b c@01-01", "b c; a=NotNewest; CreatedUnknown:2"},
		"NewestTieVersions":  {`{"tags":{"newest":1}}`, "", "1.9.0@01-01#1 1.10.0@01-01#2 zz@01-01#3", "1.10.0; 1.9.0=NotNewest zz=NotNewest"},
		"NewestBySemVer":     {`{"tags":{"newest":2,"newestBy":"SemVer"}}`, "", "1.9.0 1.10.0 1.11.0-rc.1 latest 2.0.0@#1 2.0@#1", "1.10.0 2.0 2.0.0; 1.11.0-rc.1=Prerelease 1.9.0=NotNewest latest=NotAVersion"},
		"NewestByName":       {`{"tags":{"newest":1,"newestBy":"Name"}}`, "", "B a C", "a; B=NotNewest C=NotNewest"},
		"NewestOfAllOlder":   {`{"tags":{"maxAge":"1d","newest":1}}`, "", "a@01-01", "; a=TooOld; NothingSelected:1"},
		"NamedTag":           {`{"repositories":["ops/*:prod"],"tags":{"newest":1}}`, "ops/db", "prod@2019-01-01 main", "prod; main=NotListed"},
		"NamedBeside":        {`{"repositories":["ops/db:prod","ops/db"],"tags":{"newest":1,"include":["m*"]}}`, "ops/db", "prod main@01-01 more@02-01 x", "more prod; main=NotNewest x=NotIncluded"},
		"NamedGlob":          {`{"repositories":["ops/db:v1.*"]}`, "ops/db", "v1.1 v1.2 v2.0", "v1.1 v1.2; v2.0=NotListed"},
		"NamedBad":           {`{"repositories":["ops/db:*"]}`, "ops/db", "a -b", "a; -b=InvalidTag; InvalidTag:1"},
		"Pinned":             {`{"repositories":["ops/db@` + digest1 + `"]}`, "ops/db", "a", "; a=NotListed; NothingSelected:1"},
		"PinnedTag":          {`{"repositories":["ops/db:a@` + digest1 + `"]}`, "ops/db", "a@#2 b", "a; b=NotListed; DigestMoved:1"},
		"BadEntries":         {`{"repositories":["Ops/db","ops//x","ops/db","a:b:c/d","x@sha256:1","ops/db:"]}`, "ops/db", "a", "a; ; InvalidRepository:5"},
		"Rule":               {`{"tags":{"newest":1},"rules":[{"name":"other","repositories":["x"],"skip":true},{"name":"nightly","repositories":["ops/*"],"tags":{"include":["n*"]}},{"name":"late","repositories":["**"],"skip":true}]}`, "ops/db", "n1 n2 m", "n1 n2; m=NotIncluded"},
		"NothingSelected":    {`{"tags":{"include":["x"]}}`, "", "a b", "; a=NotIncluded b=NotIncluded; NothingSelected:1"},
		"NoTags":             {`{"tags":{"include":["x"]}}`, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := compile(t, test.filter).Select(filter.Repository{Registry: "registry.example.com", Name: test.repository, Now: now, Tags: tags(t, test.tags)})
			if got := told(a); got != test.want || !a.RepositorySelected || a.Error != nil {
				t.Errorf("got  %s\nwant %s\n%+v", got, test.want, a)
			}
		})
	}
}

func TestRepositories(t *testing.T) {
	for name, test := range map[string]struct {
		filter, registry, repository string
		selected                     bool
		rule                         string
	}{
		"All":               {`{}`, "r", "a/b", true, ""},
		"One":               {`{"repositories":["a/b"]}`, "r", "a/b", true, ""},
		"Other":             {`{"repositories":["a/b"]}`, "r", "a/c", false, ""},
		"StarNoSlash":       {`{"repositories":["a/*"]}`, "r", "a/b/c", false, ""},
		"StarOnlyTop":       {`{"repositories":["*"]}`, "r", "a/b", false, ""},
		"TwoStars":          {`{"repositories":["a/**"]}`, "r", "a/b/c", true, ""},
		"QuestionNoSlash":   {`{"repositories":["a?b"]}`, "r", "a/b", false, ""},
		"Question":          {`{"repositories":["a/?"]}`, "r", "a/b", true, ""},
		"ExcludeWins":       {`{"repositories":["a/b"],"excludeRepositories":["a/*"],"rules":[{"name":"x","repositories":["**"],"skip":true}]}`, "r", "a/b", false, ""},
		"SkippedByRule":     {`{"rules":[{"name":"x","repositories":["a/*"],"skip":true}]}`, "r", "a/b", false, "x"},
		"FirstRule":         {`{"rules":[{"name":"x","repositories":["a/*"]},{"name":"y","repositories":["**"],"skip":true}]}`, "r", "a/b", true, "x"},
		"HubShort":          {`{"repositories":["nginx"]}`, "docker.io", "library/nginx", true, ""},
		"HubLong":           {`{"repositories":["library/nginx"]}`, "index.docker.io", "nginx", true, ""},
		"HubExclude":        {`{"excludeRepositories":["library/*"]}`, "registry-1.docker.io", "nginx", false, ""},
		"NotTheHub":         {`{"repositories":["nginx"]}`, "r", "library/nginx", false, ""},
		"InvalidRepository": {`{}`, "r", "A/b", false, ""},
	} {
		a := compile(t, test.filter).Select(filter.Repository{Registry: test.registry, Name: test.repository, Now: now, Tags: tags(t, "a")})
		if a.RepositorySelected != test.selected || a.Rule != test.rule || !test.selected && len(a.Selected)+len(a.Skipped) > 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestPlatforms(t *testing.T) {
	repository := filter.Repository{Now: now, Tags: []filter.Tag{
		{Name: "both", Platforms: []string{"linux/x86_64", "linux/arm", "linux/amd64", "windows/amd64:10.0"}},
		{Name: "other", Platforms: []string{"linux/s390x"}},
		{Name: "named", Platforms: []string{"linux/s390x"}},
		{Name: "unknown"},
	}}
	a := compile(t, `{"repositories":["**","**:named"],"platforms":["linux/*","windows/arm64"],"rules":[{"name":"r","repositories":["**"],"platforms":["*/amd64","linux/arm"]}]}`).Select(repository)
	if got := told(a); got != "both unknown; named=PlatformNotSelected other=PlatformNotSelected" || a.Rule != "r" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(a.Platforms); got != "map[both:[linux/amd64 linux/arm/v7 windows/amd64:10.0]]" {
		t.Errorf("got %s", got)
	}
}

func TestFirstSeenIsADate(t *testing.T) {
	a := compile(t, `{"tags":{"maxAge":"1d"}}`).Select(filter.Repository{Now: now, Tags: []filter.Tag{
		{Name: "old", FirstSeen: now.Add(-25 * time.Hour)},
		{Name: "new", FirstSeen: now.Add(-time.Hour)},
		{Name: "exact", Created: now.Add(-24 * time.Hour)},
		{Name: "ahead", Created: now.Add(time.Hour)},
		{Name: "future", Created: now.Add(time.Hour + 1), FirstSeen: now.Add(-48 * time.Hour)},
	}})
	if got := told(a); got != "ahead exact new; future=TooOld old=TooOld; CreatedInFuture:1" {
		t.Errorf("got %s", got)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]struct {
		code  filter.Code
		field string
	}{
		`{"tags":{"expression":"tag +"}}`:                                 {filter.ExpressionInvalid, "tags.expression"},
		`{"tags":{"expression":"tag"}}`:                                   {filter.ExpressionInvalid, "tags.expression"},
		`{"tags":{"expression":"dyn(tag)"}}`:                              {filter.ExpressionInvalid, "tags.expression"},
		`{"tags":{"expression":"unknown == 1"}}`:                          {filter.ExpressionInvalid, "tags.expression"},
		`{"tags":{"expression":"` + strings.Repeat(" ", 4096) + `true"}}`: {filter.ExpressionInvalid, "tags.expression"},
		`{"tags":{"semver":{"range":"newest"}}}`:                          {filter.RangeInvalid, "tags.semver.range"},
		`{"tags":{"maxAge":"1y"}}`:                                        {filter.DurationInvalid, "tags.maxAge"},
		`{"tags":{"maxAge":"0d"}}`:                                        {filter.DurationInvalid, "tags.maxAge"},
		`{"tags":{"maxAge":"1.5h"}}`:                                      {filter.DurationInvalid, "tags.maxAge"},
		`{"tags":{"maxAge":"99999999999w"}}`:                              {filter.DurationInvalid, "tags.maxAge"},
		`{"tags":{"newest":0}}`:                                           {filter.NewestInvalid, "tags.newest"},
		`{"rules":[{"name":"a","repositories":["x"]},{"name":"b","tags":{"expression":"1"}}]}`: {filter.ExpressionInvalid, "rules[1].tags.expression"},
		`{"rules":[{"name":"b","repositories":["x"],"skip":true,"tags":{"newest":-1}}]}`:       {filter.NewestInvalid, "rules[0].tags.newest"},
		`{"rules":[{"name":"b","repositories":["x"],"platforms":["linux"]}]}`:                  {filter.PlatformInvalid, "rules[0].platforms"},
	} {
		var f registryv1alpha1.Filter
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		if _, err := filter.Compile(f); err == nil || err.Code != want.code || err.Field != want.field || strings.Contains(err.Message, "\n") {
			t.Errorf("%.80s: %v", text, err)
		}
	}
	a := compile(t, `{"tags":{"expression":"semver(tag).major() > 1","onError":"Fail"}}`).Select(filter.Repository{Now: now, Tags: tags(t, "2.0.0 tip")})
	if a.Error == nil || a.Error.Code != filter.ExpressionFailed || a.Error.Field != "tags.expression" || !strings.Contains(a.Error.Message, "tip") || len(a.Selected) > 0 {
		t.Errorf("got %+v", a)
	}
}

func TestExamplesAreBounded(t *testing.T) {
	a := compile(t, `{}`).Select(filter.Repository{Now: now, Tags: tags(t, "-1 -2 -3 -4 -5 -6 ok")})
	if len(a.Warnings) != 1 || a.Warnings[0].Count != 6 || !slices.Equal(a.Warnings[0].Examples, []string{"-1", "-2", "-3", "-4", "-5"}) || a.Warnings[0].Message == "" {
		t.Errorf("got %+v", a.Warnings)
	}
}

// BenchmarkSelect judges 10,000 tags by version, expression and date.
func BenchmarkSelect(b *testing.B) {
	compiled := compile(b, `{"tags":{"exclude":["*-debug"],"semver":{"range":">=1.0","prereleases":true},"expression":"semver(tag).minor() % 2 == 0 && !tag.endsWith('-rc')","newest":50}}`)
	r := filter.Repository{Registry: "registry.example.com", Name: "shop/app", Now: now}
	for i := range 10_000 {
		r.Tags = append(r.Tags, filter.Tag{Name: fmt.Sprintf("%d.%d.%d", i%7, i%100, i), Digest: fmt.Sprintf("sha256:%064x", i/2), Created: now.Add(-time.Duration(i) * time.Hour)})
	}
	before := used(b)
	for b.Loop() {
		if a := compiled.Select(r); len(a.Selected) == 0 {
			b.Fatal("nothing is selected")
		}
	}
	b.ReportMetric(float64((used(b)-before).Microseconds())/1000/float64(b.N), "CPU-ms/10k")
}

// used is the CPU time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
