import css from './dead-letters.module.css';

/** Counts over time as small bars. */
export function Bars({ counts, label }: { counts: number[]; label: string }) {
  const top = Math.max(...counts, 1);
  return (
    <svg className={css.bars} viewBox={`0 0 ${counts.length * 4} 20`} preserveAspectRatio="none" role="img" aria-label={label}>
      {counts.map((n, i) => {
        const h = n === 0 ? 0.5 : Math.max((n / top) * 20, 2);
        return <rect key={i} x={i * 4} width={3} y={20 - h} height={h} />;
      })}
    </svg>
  );
}
