-- What is asked of results: a row for each, counts of them, and when they were first and last seen.
CREATE TABLE names (
  id {{.Int}} NOT NULL PRIMARY KEY,
  sha {{.ASCII 64}} NOT NULL UNIQUE,
  s {{.Long}} NOT NULL
);

-- severity: 5 critical, 4 high, 3 medium, 2 low, 1 info, 0 absent. result: 1 pass, 2 fail, 3 warn, 4 error, 5 skip, 0 absent.
-- Texts are numbers of names; times are seconds since 1970, in UTC.
CREATE TABLE results (
  object {{.Int}} NOT NULL,
  i {{.Int}} NOT NULL,
  ns {{.Int}} NOT NULL,
  source {{.Int}} NOT NULL,
  policy {{.Int}} NOT NULL,
  rule {{.Int}} NOT NULL,
  category {{.Int}} NOT NULL,
  severity {{.Small}} NOT NULL,
  result {{.Small}} NOT NULL,
  score {{.Real}} NULL,
  ts {{.Int}} NULL,
  first_seen {{.Int}} NOT NULL,
  res_kind {{.Int}} NOT NULL,
  res_ns {{.Int}} NOT NULL,
  res_name {{.Int}} NOT NULL,
  fingerprint {{.ASCII 32}} NOT NULL,
  exception {{.Int}} NULL,
  suppressed {{.Small}} NOT NULL,
  PRIMARY KEY (object, i)
);
CREATE INDEX results_policy ON results (policy, ns, severity, result);
CREATE INDEX results_rule ON results (rule, ns);
CREATE INDEX results_severity ON results (severity, result, ns, suppressed);
CREATE INDEX results_score ON results (score, ns, suppressed) {{.Where "score IS NOT NULL"}};

-- ns 0 is the whole cluster, kept beside each namespace's rows.
CREATE TABLE counts (
  ns {{.Int}} NOT NULL,
  policy {{.Int}} NOT NULL,
  result {{.Small}} NOT NULL,
  suppressed {{.Small}} NOT NULL,
  n {{.Int}} NOT NULL,
  PRIMARY KEY (ns, policy, result, suppressed)
){{.Clustered}};

-- n is the number of open results at the end of a day, counted in days since 1970. A day without a write has no rows: its
-- numbers are those of the day before. added and fixed are what came and went on that day.
CREATE TABLE daily (
  day {{.Int}} NOT NULL,
  ns {{.Int}} NOT NULL,
  source {{.Int}} NOT NULL,
  severity {{.Small}} NOT NULL,
  result {{.Small}} NOT NULL,
  suppressed {{.Small}} NOT NULL,
  n {{.Int}} NOT NULL,
  added {{.Int}} NOT NULL,
  fixed {{.Int}} NOT NULL,
  PRIMARY KEY (day, ns, source, severity, result, suppressed)
){{.Clustered}};

-- Survives the replacement of reports, so that "new since" has an answer.
CREATE TABLE first_seen (
  ns {{.Int}} NOT NULL,
  fingerprint {{.ASCII 32}} NOT NULL,
  at {{.Int}} NOT NULL,
  last {{.Int}} NOT NULL,
  PRIMARY KEY (ns, fingerprint)
){{.Clustered}};
CREATE INDEX first_seen_last ON first_seen (last);

-- The life of a finding at a target: seen from first_at to last_at, gone since fixed_at, come back reopened times. run is
-- the last run that had it.
CREATE TABLE history (
  ns {{.Int}} NOT NULL,
  target {{.Int}} NOT NULL,
  fingerprint {{.ASCII 32}} NOT NULL,
  source {{.Int}} NOT NULL,
  severity {{.Small}} NOT NULL,
  result {{.Small}} NOT NULL,
  first_at {{.Int}} NOT NULL,
  last_at {{.Int}} NOT NULL,
  fixed_at {{.Int}} NULL,
  reopened {{.Int}} NOT NULL,
  run {{.ASCII 64}} NOT NULL,
  PRIMARY KEY (ns, target, fingerprint)
){{.Clustered}};
CREATE INDEX history_fixed ON history (fixed_at, ns);

-- Which parts of a run have been seen. A run whose parts are all there says what it does not hold, too.
CREATE TABLE run_parts (
  ns {{.Int}} NOT NULL,
  target {{.Int}} NOT NULL,
  run {{.ASCII 64}} NOT NULL,
  part {{.Int}} NOT NULL,
  at {{.Int}} NOT NULL,
  PRIMARY KEY (ns, target, run, part)
){{.Clustered}};
