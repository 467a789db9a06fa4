extension PickerPage {
    /// The page's script, which sets names as text, never as markup.
    static let script = itemsScript + foldersScript

    private static let itemsScript = #"""
        "use strict";
        (() => {
          const secret = document.querySelector("meta[name=call]").content;
          const element = (id) => document.getElementById(id);
          const [items, status, error, filter] = ["items", "status", "error", "filter"].map(element);
          const [crumbList, chooseButton, cancelButton] = ["crumbs", "choose", "cancel"].map(element);
          const nameField = element("name");
          const part = 200;
          let setup = null;      // what the picker is for
          let crumbs = [];       // from a place to the folder that is shown; none for the list of places
          let shown = [];        // the items that are on the page
          let matches = 0;       // how many there are
          let current = -1;      // the item that keys act on
          let round = 0;         // counts what was asked for: an answer to an older question is dropped
          let [isBusy, isOver, isFetching] = [false, false, false];

          async function call(path, body) {
            const options = { headers: { "X-Cove-Call": secret }, cache: "no-store" };
            if (body !== undefined) {
              options.method = "POST";
              options.headers["Content-Type"] = "application/json";
              options.body = JSON.stringify(body);
            }
            const response = await fetch("/call/" + path, options);
            if (!response.ok) throw new Error((await response.text()).trim());
            return response.json();
          }

          // MARK: Words

          function sizeText(bytes) {
            if (bytes === 1) return "1 byte";
            const units = ["bytes", "KB", "MB", "GB", "TB", "PB", "EB"];
            let unit = 0;
            while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
            return (unit === 0 || bytes >= 10 ? Math.round(bytes) : bytes.toFixed(1)) + " " + units[unit];
          }

          const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
          const times = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

          // The day and the time of it; none for what is no date.
          function dateTexts(seconds) {
            const date = new Date(seconds * 1000);
            return typeof seconds !== "number" || Number.isNaN(date.getTime()) ? [] : [days.format(date), times.format(date)];
          }

          const states = {
            dataless: "Not here yet", downloading: "Downloading", local: "On this device", uploading: "Uploading", error: "Error",
          };

          function tell(text) { if (status.textContent !== text) status.textContent = text; }

          // MARK: Items

          function drawing(kind) {
            const space = "http://www.w3.org/2000/svg";
            const svg = document.createElementNS(space, "svg");
            svg.setAttribute("viewBox", "0 0 24 24");
            const path = document.createElementNS(space, "path");
            path.setAttribute("fill", kind === "folder" ? "currentColor" : "none");
            path.setAttribute("stroke", "currentColor");
            path.setAttribute("stroke-width", "1.5");
            path.setAttribute("stroke-linejoin", "round");
            path.setAttribute("d", kind === "folder"
              ? "M3 6.5a1.5 1.5 0 0 1 1.5-1.5h4.5l2 2.5h8.5a1.5 1.5 0 0 1 1.5 1.5v9a1.5 1.5 0 0 1-1.5 1.5h-15a1.5 1.5 0 0 1-1.5-1.5z"
              : "M6 3h8l4.5 4.5v13.5h-12.5zM14 3v4.5h4.5");
            svg.append(path);
            return svg;
          }

          function span(name, text) {
            const result = document.createElement("span");
            result.className = name;
            result.textContent = text;
            return result;
          }

          function canBeUsed(item) { return item.kind === "folder" || item.selectable; }

          function line(item, index) {
            const row = document.createElement("li");
            row.id = "item-" + index;
            row.tabIndex = -1;
            row.className = item.kind + " " + (item.state || (item.note ? "noted" : ""));
            row.setAttribute("role", "option");
            row.setAttribute("aria-selected", "false");
            row.setAttribute("aria-posinset", index + 1);
            row.setAttribute("aria-setsize", matches);
            if (!canBeUsed(item)) row.setAttribute("aria-disabled", "true");
            const isFolder = item.kind === "folder";
            const state = item.note || (isFolder ? "" : states[item.state]);
            const size = item.kind === "file" ? sizeText(item.size) : "";
            const [day, time] = dateTexts(item.modified);
            const words = [item.name, isFolder ? "folder" : "", state, size, day, time, canBeUsed(item) ? "" : "can’t be chosen"];
            row.setAttribute("aria-label", words.filter((word) => word).join(", "));
            const picture = document.createElement("span");
            picture.className = "picture";
            picture.setAttribute("aria-hidden", "true");
            picture.append(drawing(isFolder ? "folder" : "file"));
            if (item.kind === "file") {
              const image = new Image();
              image.alt = "";
              image.addEventListener("load", () => picture.replaceChildren(image));
              for (const end of ["load", "error"]) image.addEventListener(end, () => { loading.delete(image); nextPicture(); });
              image.address = "/thumbnail?item=" + item.id;
              row.picture = image;
              pictures.observe(row);
            }
            const date = span("date", day ?? "");
            date.append(span("time", time ?? ""));
            row.append(picture, span("label", item.name), span("state", state), span("size", size), date);
            row.addEventListener("click", () => {
              setCurrent(index, true);
              if (item.kind === "folder" && !item.selectable) enter(item);
            });
            row.addEventListener("dblclick", () => activate(item));
            return row;
          }

          // Few pictures at a time, lest slow ones keep the browser's connections from the calls.
          const [wanted, loading] = [[], new Set()];

          function nextPicture() {
            while (loading.size < 2 && wanted.length > 0) {
              const image = wanted.shift();
              loading.add(image);
              image.src = image.address;
            }
          }

          // Pictures of what is in view only: each may be asked of the source.
          const pictures = new IntersectionObserver((entries) => {
            for (const entry of entries) {
              if (!entry.isIntersecting) continue;
              pictures.unobserve(entry.target);
              wanted.push(entry.target.picture);
            }
            nextPicture();
          }, { root: document.querySelector("main") });

          function add(list) {
            const lines = list.map((item, place) => line(item, shown.length + place));
            shown.push(...list);
            items.append(...lines);
            for (const row of items.children) row.setAttribute("aria-setsize", matches);
          }

          function setCurrent(index, takesFocus) {
            const former = items.children[current];
            if (former) { former.tabIndex = -1; former.setAttribute("aria-selected", "false"); }
            current = Math.max(-1, Math.min(index, shown.length - 1));
            const row = items.children[current];
            // A list without items is what the focus goes to.
            items.tabIndex = row ? -1 : 0;
            if (row) {
              row.tabIndex = 0;
              row.setAttribute("aria-selected", "true");
              if (takesFocus) { row.focus(); row.scrollIntoView({ block: "nearest" }); }
            } else if (takesFocus) {
              items.focus();
            }
            update();
            if (current > shown.length - 20) more();
          }

          function update() {
            const item = shown[current];
            chooseButton.disabled = isBusy || !setup
              || (setup.choosesFolder ? crumbs.length === 0 : !(item && item.selectable));
          }

        """#
}
