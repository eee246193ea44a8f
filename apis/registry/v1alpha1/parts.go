// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Duration is a time of numbers with the units ms, s, m, h, d and w, such as 30m or 1w12h; more than zero.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h|d|w))+$`
// +kubebuilder:validation:XValidation:rule="self.matches('[1-9]')",message="must be more than zero"
type Duration string

// Period is a Duration of a minute at least. The schema refuses what is shorter in one part; the controller adds several parts up.
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h|d|w))+$`
// +kubebuilder:validation:XValidation:rule="self.matches('[1-9]') && !self.matches('^0*[0-5]?[0-9]s$') && !self.matches('^0*[0-5]?[0-9]{1,4}ms$')",message="must be at least 1m"
type Period string

// Schedule is a cron expression of five fields, such as "0 3 * * *", or a descriptor such as @daily. "" means unset.
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule="!self.startsWith('TZ=') && !self.startsWith('CRON_TZ=')",message="must not begin with a time zone; name it in spec.timeZone"
// +kubebuilder:validation:XValidation:rule="self.startsWith('TZ=') || self.startsWith('CRON_TZ=') || self.matches('^\\\\s*$') || self.matches('^\\\\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every\\\\s+[0-9a-zµ.]+|[^@\\\\s]+(\\\\s+[^\\\\s]+){4})\\\\s*$')",message="must be five fields (minute, hour, day of month, month, day of week) such as \"0 3 * * 1-5\", or one of @yearly, @monthly, @weekly, @daily, @hourly and @every with a duration"
type Schedule string

// Window is a time that comes again and again in which no job starts.
type Window struct {
	// schedule says when the window begins: a cron expression, read in spec.timeZone. Example: "0 8 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^@\\\\s=]+(\\\\s+[^\\\\s]+){4})\\\\s*$')",message="must be five fields (minute, hour, day of month, month, day of week) such as \"0 8 * * 1-5\", or one of @yearly, @monthly, @weekly, @daily and @hourly"
	Schedule string `json:"schedule"`

	// duration is how long the window lasts, such as 10h; at most 31d.
	// +required
	Duration Duration `json:"duration"`
}

// Warning is something that was odd and did not stop the work.
type Warning struct {
	// code names what was odd, for programs.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code"`

	// count is how often.
	// +optional
	Count int64 `json:"count"`

	// examples are some of what it was seen at.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Examples []string `json:"examples,omitempty"`
}

// ItemError is an item of a job that failed.
type ItemError struct {
	// item is the repository or the Image.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Item string `json:"item"`

	// reason names what went wrong, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message explains it to people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// attempts is how often it was tried.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// Database names the vulnerability data that reports were made with.
type Database struct {
	// name of the VulnerabilityDatabase.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// version is the digest of the data.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// builtAt is when the data was built.
	// +optional
	BuiltAt *metav1.Time `json:"builtAt,omitempty"`
}
