// SPDX-License-Identifier: Apache-2.0

// Package zap is the parser of ZAP's traditional XML report, result type zap-xml: one finding per alert of a site.
//
// What it decides:
//
//   - One alert is in memory at a time, with all its instances. The instances are written as JSON while they are read.
//   - An element is its text, also if that is only white space. One with attributes or children is an object instead:
//     attributes under "$", text under "_", and each child's name with the list of its values. Texts that are put
//     together print such an object as [object Object]; what is copied is the object.
//   - Oddities that clients of the format know are kept: an empty name or description is the JSON value false, which
//     the schema of findings refuses; an alert without a risk is HIGH; ports are texts.
//   - An alert without reference or instances makes the report unreadable, as does a report without a site.
package zap
