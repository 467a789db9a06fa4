extension PickerPage {
    /// The page's style: light or dark as the desktop is, wide or narrow; every text has a contrast of 4.5 and more.
    static let style = """
        :root {
          color-scheme: light dark;
          --ground: #ffffff; --bar: #f4f6f9; --text: #1b1f24; --quiet: #505863; --line: #cfd5dc; --edge: #7b8490;
          --accent: #0b57d0; --on-accent: #ffffff; --current: #dfeafc; --hover: #eef2f8; --bad: #a8131b;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #15181c; --bar: #1d2126; --text: #e7eaee; --quiet: #aab3be; --line: #363c45; --edge: #808a97;
            --accent: #8ab4f8; --on-accent: #0a1c38; --current: #243a5c; --hover: #22272e; --bad: #ff9d97;
          }
        }
        *, *::before, *::after { box-sizing: border-box; }
        [hidden], p:empty { display: none !important; }
        html, body { height: 100%; }
        body {
          margin: 0; display: flex; flex-direction: column; background: var(--ground); color: var(--text);
          font: 1rem/1.4 system-ui, sans-serif; overflow-wrap: anywhere;
        }
        header, nav, .search, footer { flex: none; padding: 0.5rem 1.25rem; background: var(--bar); }
        header { padding-top: 1rem; padding-bottom: 0.25rem; }
        h1 { margin: 0; font-size: 1.25rem; }
        header p { margin: 0.125rem 0 0; color: var(--quiet); }
        h2 { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); }
        #crumbs { display: flex; flex-wrap: wrap; margin: 0 -0.5rem; padding: 0; list-style: none; }
        #crumbs li { display: flex; align-items: center; }
        #crumbs li + li::before { content: "›"; padding: 0 0.125rem; color: var(--quiet); }
        #crumbs button { border: 0; background: none; color: var(--accent); padding: 0.375rem 0.5rem; min-height: 2rem; }
        #crumbs button:hover { text-decoration: underline; }
        #crumbs [aria-current] { color: var(--text); font-weight: 600; }
        .search { display: flex; align-items: center; gap: 0.75rem; padding-bottom: 0.75rem; border-bottom: 1px solid var(--line); }
        .search label { flex: none; }
        .search input { flex: 1; max-width: 28rem; }
        input, button { font: inherit; color: inherit; border-radius: 0.375rem; border: 1px solid var(--edge); min-height: 2.5rem; }
        input { background: var(--ground); padding: 0.375rem 0.625rem; min-width: 0; }
        button { background: var(--ground); padding: 0.375rem 1rem; cursor: pointer; }
        button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
        button:disabled { background: var(--bar); border-color: var(--line); color: var(--quiet); cursor: default; }
        :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
        main { flex: 1; min-height: 12rem; overflow-y: auto; }
        h1:focus, main:focus { outline: none; }
        #status { margin: 0; padding: 0.75rem 1.25rem 0.5rem; color: var(--quiet); font-size: 0.875rem; }
        #error { margin: 0 1.25rem 0.5rem; padding: 0.5rem 0.75rem; border: 1px solid var(--bad); border-radius: 0.375rem; color: var(--bad); }
        #again { margin: 0 1.25rem 0.5rem; }
        #items { margin: 0; padding: 0 0.75rem; list-style: none; border-radius: 0.375rem; }
        #items li {
          display: grid; grid-template-columns: 2.75rem minmax(0, 1fr) 8rem 5rem 12rem; align-items: center; gap: 0 0.75rem;
          min-height: 3.25rem; padding: 0.25rem 0.5rem; border-radius: 0.375rem; cursor: default; scroll-margin: 0.5rem;
        }
        #items li:hover { background: var(--hover); }
        #items li[aria-selected="true"] { background: var(--current); }
        #items li:focus-visible { outline-offset: -3px; }
        #items li[aria-disabled="true"] .label, .noted .label { color: var(--quiet); font-style: italic; }
        #items li[aria-disabled="true"] .picture, .noted .picture { opacity: 0.6; }
        .picture { display: grid; place-items: center; width: 2.75rem; height: 2.75rem; color: var(--quiet); }
        .picture svg { width: 1.75rem; height: 1.75rem; }
        .folder .picture { color: var(--accent); }
        .picture img { max-width: 100%; max-height: 100%; border-radius: 0.1875rem; }
        .state, .size, .date { color: var(--quiet); font-size: 0.875rem; }
        .error .state { color: var(--bad); }
        .size { text-align: right; }
        .date { text-align: right; white-space: nowrap; }
        .time { margin-left: 0.5em; }
        .keys { margin: 0; padding: 0.75rem 1.25rem; color: var(--quiet); font-size: 0.875rem; }
        footer { display: flex; flex-wrap: wrap; gap: 0.75rem; align-items: center; border-top: 1px solid var(--line); padding-block: 0.75rem; }
        .name { display: flex; align-items: center; gap: 0.75rem; flex: 1 1 16rem; }
        .name input { flex: 1; }
        .buttons { display: flex; gap: 0.75rem; margin-left: auto; }
        .over main { display: grid; place-content: center; padding: 2rem; text-align: center; }
        @media (max-width: 48rem) {
          #items li { grid-template-columns: 2.75rem auto auto minmax(0, 1fr); min-height: 3.75rem; padding-block: 0.375rem; }
          .picture { grid-row: span 2; }
          .label { grid-column: 2 / -1; }
          #items li.folder:not(.noted) .label { grid-row: span 2; }
          .state { grid-column: 2; }
          .size { text-align: left; }
          .date { text-align: left; overflow: hidden; text-overflow: ellipsis; }
          .folder:not(.noted) .state, .folder .size, .folder .date, .time { display: none; }
          .keys { display: none; }
        }
        @media (max-width: 30rem) {
          header, nav, .search, footer { padding-inline: 0.875rem; }
          #status { padding-inline: 0.875rem; }
          #items { padding-inline: 0.375rem; }
          .search { flex-direction: column; align-items: stretch; gap: 0.25rem; }
          .search input { max-width: none; }
          .buttons { width: 100%; }
          .buttons button { flex: 1; }
        }
        @media (max-height: 40rem) {
          header { padding-top: 0.5rem; }
          header p { display: none; }
          .search { flex-direction: row; align-items: center; gap: 0.75rem; }
        }
        @media (prefers-reduced-motion: no-preference) { #items li { transition: background-color 0.1s; } }
        @media (forced-colors: active) { #items li[aria-selected="true"] { outline: 2px solid Highlight; outline-offset: -2px; } }

        """
}
