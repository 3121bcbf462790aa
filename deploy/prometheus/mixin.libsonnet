// The rules of belfry.rules.yaml as a monitoring mixin, with selector, threshold and runbooks to choose.
{
  _config+:: {
    selector: 'job="belfry"',
    onTimeSeconds: '1', // 1 or 5: a bucket of belfry_schedule_lag_seconds
    runbooks: 'https://github.com/belfry-dev/belfry/blob/main/docs/guide/runbooks.md',
  },

  local config = $._config,
  local replaced = std.foldl(
    function(text, pair) std.strReplace(text, pair[0], pair[1]),
    [
      ['job="belfry"', config.selector],
      ['le=~"1([.]0)?"', 'le=~"' + config.onTimeSeconds + '([.]0)?"'],
      ['https://github.com/belfry-dev/belfry/blob/main/docs/guide/runbooks.md', config.runbooks],
    ],
    importstr 'belfry.rules.yaml',
  ),
  local groups = std.parseYaml(replaced).groups,

  prometheusRules+:: { groups+: [g for g in groups if std.objectHas(g.rules[0], 'record')] },
  prometheusAlerts+:: { groups+: [g for g in groups if std.objectHas(g.rules[0], 'alert')] },
}
