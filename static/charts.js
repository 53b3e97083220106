// Draws every [data-chart] anew with uPlot, from the samples of the API, and follows the page's stream. Without script, or when the
// samples cannot be fetched, the chart that the server drew stays.
(() => {
  const gapSeconds = 25;
  // A canvas knows no light-dark(): an element that nobody sees resolves the colour of the theme.
  const probe = document.createElement('i');
  probe.hidden = true;
  const style = (name) => {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const charts = [];

  const short = (value, digits = 1) => String(Number(value.toFixed(digits)));
  function scaled(value, step, units) {
    let at = 0;
    while (value >= step && at < units.length - 1) { value /= step; at += 1; }
    return short(value, value < 10 ? 2 : value < 100 ? 1 : 0) + units[at];
  }
  const words = {
    'per-second': (value) => scaled(value, 1000, ['', ' k', ' M']),
    bytes: (value) => scaled(value, 1024, [' B/s', ' KiB/s', ' MiB/s', ' GiB/s']),
    microseconds: (value) => short(value / 1000, value < 10000 ? 2 : 0) + ' ms',
  };

  // Bytes are halved and doubled, everything else goes by tens: so that the axis has round numbers.
  const steps = { bytes: Array.from({ length: 50 }, (_, n) => 2 ** n) };

  async function points(figure, metric, from, to) {
    const range = `&from=${encodeURIComponent(new Date(from).toISOString())}&to=${encodeURIComponent(new Date(to).toISOString())}`;
    const answer = await fetch(`${figure.dataset.url}&metric=${metric}${range}`, { headers: { accept: 'application/json' } });
    if (!answer.ok) throw new Error(String(answer.status));
    return (await answer.json()).points.map(([time, value]) => [Math.round(Date.parse(time) / 1000), value]);
  }

  // One column of times and one a metric; where samples are missing a row without values interrupts the lines.
  function table(series) {
    const times = [...new Set(series.flatMap((list) => list.map(([time]) => time)))].sort((a, b) => a - b);
    const known = series.map((list) => new Map(list));
    const columns = [[], ...series.map(() => [])];
    times.forEach((time, at) => {
      if (at > 0 && time - times[at - 1] > gapSeconds) {
        columns[0].push(times[at - 1] + 1);
        series.forEach((_, n) => columns[n + 1].push(null));
      }
      columns[0].push(time);
      known.forEach((map, n) => columns[n + 1].push(map.get(time) ?? null));
    });
    return columns;
  }

  function options(chart) {
    const word = words[chart.figure.dataset.unit];
    const font = '12px Inter, system-ui, sans-serif';
    const axis = { stroke: style('--ink-3'), font, grid: { stroke: style('--line'), width: 1 }, ticks: { show: false } };
    const line = (label, colour, extra) => ({ label, stroke: colour, width: 2, spanGaps: false, points: { show: false }, value: (_, value) => value === null ? '–' : word(value), ...extra });
    return {
      width: chart.box.clientWidth, height: chart.height, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
      cursor: { y: false, points: { size: 7 }, sync: { key: 'millpond' } }, legend: { live: true },
      scales: { x: { range: () => [(chart.to - chart.span) / 1000, chart.to / 1000] }, y: { range: (_, least, most) => [0, Math.max(most ?? 0, 1) * 1.08] } },
      axes: [{ ...axis, size: 28, values: [[86400, '{D} {MMM}', null, null, null, null, null, null, 1], [60, '{HH}:{mm}', null, null, null, null, null, null, 1], [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1]] },
        { ...axis, size: chart.figure.dataset.unit === 'bytes' ? 82 : 56, incrs: steps[chart.figure.dataset.unit], values: (_, values) => values.map(word) }],
      series: [{ label: 'UTC', value: '{HH}:{mm}:{ss}' }, line(chart.names[0], style('--accent'), { fill: style('--accent-soft') }), line(chart.names[1], style('--ink-2'), { dash: [5, 4] })],
    };
  }

  function draw(chart) {
    if (chart.plot) chart.plot.destroy();
    chart.box.replaceChildren();
    chart.plot = new uPlot(options(chart), table(chart.series), chart.box);
    chart.plot.root.querySelector('canvas').setAttribute('aria-hidden', 'true');
  }

  async function begin(figure) {
    const box = figure.querySelector('.drawn');
    const from = Number(figure.dataset.from);
    const to = Number(figure.dataset.to);
    const metrics = figure.dataset.metrics.split(',');
    const names = [...figure.querySelectorAll('.keys li')].map((item) => item.textContent.trim());
    const series = await Promise.all(metrics.map((metric) => points(figure, metric, from, to)));
    if (series.every((list) => list.length === 0) || !window.uPlot) return;
    const chart = { figure, box, metrics, names, series, from, to, span: to - from, height: Math.max(150, Math.min(200, box.clientHeight)) };
    figure.dataset.drawn = '';
    draw(chart);
    charts.push(chart);
    new ResizeObserver(() => { if (box.clientWidth > 0) chart.plot.setSize({ width: box.clientWidth, height: chart.height }); }).observe(box);
  }

  // The stream says when there is a newer sample; only what is new is fetched.
  async function follow(newest) {
    for (const chart of charts) {
      if (newest <= chart.to) continue;
      const since = chart.to + 1;
      chart.to = newest;
      try {
        const more = await Promise.all(chart.metrics.map((metric) => points(chart.figure, metric, since, newest)));
        chart.series = chart.series.map((list, n) => [...list, ...more[n]].filter(([time]) => time * 1000 >= newest - chart.span));
        chart.plot.setData(table(chart.series));
          } catch { chart.to = since - 1; }
    }
  }

  document.addEventListener('htmx:after:swap', () => {
    const newest = Number(document.querySelector('[data-sample]')?.dataset.sample ?? 0);
    if (newest > 0) follow(newest);
  });
  document.addEventListener('millpond:theme', () => charts.forEach(draw));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => charts.forEach(draw));
  document.addEventListener('DOMContentLoaded', () => document.querySelectorAll('[data-chart]').forEach((figure) => begin(figure).catch(() => { /* the drawn chart stays */ })));
})();
