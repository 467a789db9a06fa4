extension PickerPage {
    /// The second half of the script: folders, choosing, and keys.
    static let foldersScript = #"""
          // MARK: Folders

          function showCrumbs() {
            const whole = setup.roots.length > 1 ? [{ name: "Places", id: null }, ...crumbs] : crumbs;
            crumbList.replaceChildren(...whole.map((crumb, index) => {
              const entry = document.createElement("li");
              const button = document.createElement("button");
              button.type = "button";
              button.textContent = crumb.name;
              if (index === whole.length - 1) button.setAttribute("aria-current", "location");
              const depth = index + 1 - (whole.length - crumbs.length);
              button.addEventListener("click", () => goTo(depth));
              entry.append(button);
              return entry;
            }));
            element("folder").textContent = whole.length > 0 ? whole[whole.length - 1].name : "Documents";
          }

          function clear() {
            pictures.disconnect();
            wanted.length = 0;
            for (const image of loading) image.removeAttribute("src");
            loading.clear();
            items.replaceChildren();
            shown = [];
            matches = 0;
            current = -1;
            items.tabIndex = 0;
          }

          function fail(text) {
            error.textContent = text;
            element("again").hidden = false;
          }

          async function list(options = {}) {
            round += 1;
            const own = round;
            error.textContent = "";
            element("again").hidden = true;
            isFetching = true;
            items.setAttribute("aria-busy", "true");
            // What is shown stays while it is filtered anew.
            if (options.keepsCurrent) options.cameFrom = shown[current]?.id; else clear();
            // A folder that does not answer is left by the same keys as others.
            if (options.takesFocus && shown.length === 0) items.focus();
            update();
            if (crumbs.length === 0) {
              const wanted = filter.value.toLowerCase();
              const places = setup.roots.filter((root) => root.name.toLowerCase().includes(wanted));
              clear();
              matches = places.length;
              add(places.map((root) => ({ ...root, kind: "folder", selectable: false })));
              settle(options, places.length);
              return;
            }
            const folder = crumbs[crumbs.length - 1].id;
            const query = () => "list?folder=" + folder + "&from=0&count=" + part
              + "&filter=" + encodeURIComponent(filter.value) + (options.again ? "&again=1" : "");
            try {
              while (true) {
                const answer = await call(query());
                if (own !== round) return;
                options.again = false;
                if (answer.state === "loading") {
                  tell(answer.found > 0 ? "Loading… " + answer.found + " items so far" : "Loading…");
                  continue;
                }
                if (answer.state === "failed") {
                  isFetching = false;
                  items.removeAttribute("aria-busy");
                  tell("");
                  fail(answer.error);
                  return;
                }
                clear();
                matches = answer.matches;
                add(answer.items);
                settle(options, answer.total);
                return;
              }
            } catch (problem) { if (own === round) lost(); }
          }

          function settle(options, total) {
            isFetching = false;
            items.removeAttribute("aria-busy");
            const count = matches === 1 ? "1 item" : matches + " items";
            tell(filter.value === "" ? (matches === 0 ? "Nothing is here" : count)
              : matches === 0 ? "No name has this" : count + " of " + total);
            const place = shown.findIndex((item) => item.id === options.cameFrom);
            setCurrent(Math.max(0, place), options.takesFocus === true);
          }

          async function more() {
            if (isFetching || crumbs.length === 0 || shown.length >= matches) return;
            isFetching = true;
            const own = round;
            const folder = crumbs[crumbs.length - 1].id;
            try {
              const answer = await call("list?folder=" + folder + "&from=" + shown.length + "&count=" + part
                + "&filter=" + encodeURIComponent(filter.value));
              if (own !== round) return;
              isFetching = false;
              if (answer.state === "done") add(answer.items);
            } catch (problem) { if (own === round) lost(); }
          }

          new IntersectionObserver((entries) => { if (entries[0].isIntersecting) more(); }, {
            root: document.querySelector("main"), rootMargin: "400px",
          }).observe(element("end"));

          function enter(item) {
            crumbs.push({ name: item.name, id: item.id });
            filter.value = "";
            showCrumbs();
            list({ takesFocus: true });
          }

          function goTo(depth) {
            if (depth < 0 || depth >= crumbs.length) { items.children[current]?.focus(); return; }
            const left = crumbs[depth];
            crumbs = crumbs.slice(0, depth);
            filter.value = "";
            showCrumbs();
            list({ takesFocus: true, cameFrom: left.id });
          }

          function goUp() {
            if (crumbs.length > 1 || (setup.roots.length > 1 && crumbs.length === 1)) goTo(crumbs.length - 1);
          }

          // MARK: Choosing

          function activate(item) {
            if (!item) return;
            if (item.kind === "folder") enter(item);
            else if (setup.choosesFolder) error.textContent = "A folder is chosen here.";
            else if (item.selectable) choose();
            else error.textContent = setup.app + " can’t use items of this type.";
          }

          async function choose() {
            if (chooseButton.disabled || isBusy) return;
            const item = shown[current];
            const wish = setup.choosesFolder
              ? { item: crumbs[crumbs.length - 1].id, name: nameField.value } : { item: item.id };
            isBusy = true;
            error.textContent = "";
            update();
            tell("Working…");
            document.body.setAttribute("aria-busy", "true");
            try {
              const answer = await call("choose", wish);
              if (answer.state === "done") return finish("Done", "You can close this page.");
              tell("");
              error.textContent = answer.error;
            } catch (problem) { return lost(); }
            isBusy = false;
            document.body.removeAttribute("aria-busy");
            update();
          }

          async function cancel() {
            try {
              const answer = await call("cancel", {});
              if (answer.state === "cancelled") finish("Cancelled", "Nothing has changed. You can close this page.");
            } catch (problem) { lost(); }
          }

          function lost() { finish("The picker has ended", "You can close this page."); }

          function finish(title, text) {
            if (isOver) return;
            isOver = true;
            document.title = title + " – Cove";
            document.body.className = "over";
            document.body.removeAttribute("aria-busy");
            const main = document.querySelector("main");
            const heading = document.createElement("h1");
            heading.tabIndex = -1;
            heading.textContent = title;
            const line = document.createElement("p");
            line.setAttribute("role", "status");
            line.textContent = text;
            main.replaceChildren(heading, line);
            document.body.replaceChildren(main);
            heading.focus();
          }

          // MARK: Keys

          function isPlain(event) { return !event.ctrlKey && !event.altKey && !event.metaKey; }

          document.addEventListener("keydown", (event) => {
            if (isOver || event.isComposing || !setup || event.key !== "Escape" || !isPlain(event)) return;
            event.preventDefault();
            if (filter.value !== "" && !isBusy) { filter.value = ""; list({ takesFocus: true, keepsCurrent: true }); } else cancel();
          });

          items.addEventListener("keydown", (event) => {
            if (isOver || !isPlain(event)) return;
            const page = Math.max(1, Math.floor(document.querySelector("main").clientHeight / 60));
            const moves = {
              ArrowDown: current + 1, ArrowUp: Math.max(0, current - 1), Home: 0, End: shown.length - 1,
              PageDown: current + page, PageUp: Math.max(0, current - page),
            };
            if (event.key in moves) setCurrent(moves[event.key], true);
            else if (event.key === "Enter") activate(shown[current]);
            else if (event.key === "ArrowRight") { if (shown[current]?.kind === "folder") enter(shown[current]); }
            else if (event.key === "ArrowLeft" || event.key === "Backspace") goUp();
            else if (event.key === " ") setCurrent(current, true);
            else {
              // What is typed goes to the filter.
              if (event.key.length === 1) filter.focus();
              return;
            }
            event.preventDefault();
          });

          let pause = 0;
          filter.addEventListener("input", () => {
            clearTimeout(pause);
            pause = setTimeout(() => { if (!isOver) list({ keepsCurrent: true }); }, 120);
          });
          filter.addEventListener("keydown", (event) => {
            if (event.key !== "ArrowDown" && event.key !== "Enter" || event.isComposing) return;
            event.preventDefault();
            setCurrent(Math.max(0, current), true);
          });
          nameField?.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) choose(); });
          chooseButton.addEventListener("click", choose);
          cancelButton.addEventListener("click", cancel);
          element("again").addEventListener("click", () => list({ again: true, takesFocus: true }));

          // MARK: The beginning

          (async () => {
            try { setup = await call("start"); } catch (problem) { return lost(); }
            if (nameField) nameField.value = setup.name;
            if (setup.roots.length === 1) crumbs = [setup.roots[0]];
            showCrumbs();
            list({ takesFocus: true });
          })();
        })();

        """#
}
