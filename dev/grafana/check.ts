// What a dashboard may contain, by Grafana's own types. Its Panel accepts any options, so those of the three kinds of panels
// that the dashboards use are added here. The text of JSON has no enums: Plain replaces them by their values.
import type * as schema from "@grafana/schema";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

type Plain<T> = unknown extends T ? T
  : T extends string ? `${T}`
  : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Plain<U>[]
  : { [K in keyof T]: Plain<T[K]> };

type Target = {
  refId: string; datasource: schema.DataSourceRef; expr: string; legendFormat: string; instant: boolean; range: boolean;
  format: "time_series" | "table" | "heatmap";
};

type Kind<Name extends string, Options, Custom> =
  Omit<schema.Panel, "type" | "options" | "targets" | "fieldConfig" | "title" | "description" | "gridPos"> & {
    type: Name; title: string; description: string; gridPos: schema.GridPos; options: Options; targets: Target[];
    fieldConfig: Omit<schema.FieldConfigSource, "defaults"> & {
      defaults: Omit<schema.FieldConfig, "custom" | "unit"> & { unit: string; custom?: Custom };
    };
  };

type AnyPanel =
  | Kind<"timeseries", timeseries.Options, timeseries.FieldConfig>
  | Kind<"stat", stat.Options, never>
  | Kind<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | schema.RowPanel;

export type Checked = Plain<Omit<schema.Dashboard, "panels"> & { uid: string; title: string; panels: AnyPanel[] }>;
