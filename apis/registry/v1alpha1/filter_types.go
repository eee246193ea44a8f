// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Filter says which images of a registry are taken.
type Filter struct {
	// repositories are the repositories to take: name, name:tag or name@sha256:…, where * in a name is any run of
	// characters without /, ? is one, ** is any run with /; a tag may have * and ?. Absent: all of the catalogue.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +optional
	Repositories []string `json:"repositories,omitempty"`
	// excludeRepositories are patterns of the names of repositories to leave out; they win over repositories.
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=255
	// +listType=atomic
	// +optional
	ExcludeRepositories []string `json:"excludeRepositories,omitempty"`
	// platforms are the platforms to take: os/arch or os/arch/variant, * for any os or arch. Absent: all.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Platforms []string `json:"platforms,omitempty"`
	// tags says which tags to take. Absent: all.
	// +optional
	Tags *TagFilter `json:"tags,omitempty"`
	// rules are for some of the repositories: the first rule whose patterns fit a repository counts, and what the rule
	// sets replaces that of the filter as a whole.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is a filter for some of the repositories.
type Rule struct {
	// name tells the rule from the others.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// repositories are patterns of names, as those of the filter.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=255
	// +listType=atomic
	Repositories []string `json:"repositories"`
	// skip leaves these repositories out.
	// +optional
	Skip bool `json:"skip,omitempty"`
	// platforms replaces that of the filter.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	Platforms []string `json:"platforms,omitempty"`
	// tags replaces that of the filter.
	// +optional
	Tags *TagFilter `json:"tags,omitempty"`
}

// TagFilter says which tags of a repository are taken. A tag has to pass all of what is set.
type TagFilter struct {
	// include are patterns of tags, with * and ?; a tag has to fit one of them.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=atomic
	// +optional
	Include []string `json:"include,omitempty"`
	// exclude are patterns of tags to leave out.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=atomic
	// +optional
	Exclude []string `json:"exclude,omitempty"`
	// semver takes tags that are versions only: 1.2, v1.2.3, 1.2.3-rc.1.
	// +optional
	SemVer *SemVer `json:"semver,omitempty"`
	// expression is CEL of type bool over tag, repository, registry, digest, created, hasCreated, now and platforms.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Expression string `json:"expression,omitempty"`
	// onError says what becomes of a tag whose expression ends with an error: Skip (default) leaves the tag out, Select
	// takes the tag, Fail ends the repository.
	// +optional
	OnError OnError `json:"onError,omitempty"`
	// maxAge leaves out tags whose image is older: numbers with units, such as 14d or 1w12h.
	// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h|d|w))+$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	MaxAge string `json:"maxAge,omitempty"`
	// newest takes the newest images only. Tags of one image count once.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Newest *int32 `json:"newest,omitempty"`
	// newestBy is what newest goes by: Created (default), SemVer or Name.
	// +optional
	NewestBy NewestBy `json:"newestBy,omitempty"`
}

// SemVer is a rule for tags that are versions.
type SemVer struct {
	// range is a range of versions, such as ">=1.2 <2", ^1.2 or ~1.2. Absent: all.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Range string `json:"range,omitempty"`
	// prereleases takes pre-releases too, such as 1.2.0-rc.1; the flavour of an image (1.27-alpine) is one as well.
	// +optional
	Prereleases bool `json:"prereleases,omitempty"`
}

// OnError says what becomes of a tag whose expression ends with an error.
// +kubebuilder:validation:Enum=Skip;Select;Fail
type OnError string

// What may become of such a tag.
const (
	OnErrorSkip   OnError = "Skip"
	OnErrorSelect OnError = "Select"
	OnErrorFail   OnError = "Fail"
)

// NewestBy is an order of images.
// +kubebuilder:validation:Enum=Created;SemVer;Name
type NewestBy string

// The orders of images, each with the newest one first.
const (
	NewestByCreated NewestBy = "Created"
	NewestBySemVer  NewestBy = "SemVer"
	NewestByName    NewestBy = "Name"
)
