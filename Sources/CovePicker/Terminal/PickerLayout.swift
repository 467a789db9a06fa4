internal import CoveCore

/// What is on the screen: rows of texts, each at its column.
struct Screen: Sendable, Equatable {
    /// How a text looks; without colours, so that it can be read on any background.
    enum Style: Sendable, Equatable { case plain, strong, faint, current, currentFaint }

    /// A text at a column, counted from 0.
    struct Span: Sendable, Equatable {
        var column: Int
        var text: String
        var style: Style
    }

    var rows: [[Span]]
    /// Where the terminal's cursor is.
    var cursor: (row: Int, column: Int)

    static func == (left: Screen, right: Screen) -> Bool { left.rows == right.rows && left.cursor == right.cursor }
}

/// Draws a model on a screen of some size.
enum PickerLayout {
    /// What people can read at least something on.
    static let smallest = (columns: 12, rows: 3)

    /// How many items fit on a screen.
    static func height(of model: PickerModel, rows: Int) -> Int {
        max(1, rows - heads(model, rows) - feet(model, rows))
    }

    /// The rows above the list: the title, the folder and the filter, as far as there is room.
    private static func heads(_ model: PickerModel, _ rows: Int) -> Int {
        rows >= 8 ? 4 : rows >= 6 ? 2 : rows >= 4 ? 1 : 0
    }

    private static func feet(_ model: PickerModel, _ rows: Int) -> Int { model.request.mode.choosesFolder ? 2 : 1 }

    /// Draws; no text goes beyond the size.
    static func draw(_ model: PickerModel, columns: Int, rows: Int) -> Screen {
        guard columns >= smallest.columns, rows >= smallest.rows else {
            let text = TextWidth.cut("Too small", to: columns)
            let row = [Screen.Span(column: 0, text: text, style: .plain)]
            return Screen(rows: (0..<max(1, rows)).map { $0 == 0 ? row : [] }, cursor: (0, 0))
        }
        var lines: [[Screen.Span]] = []
        var cursor = (row: 0, column: 0)
        let heads = heads(model, rows)
        if heads >= 4 { lines.append(line(title(model), .strong, columns)) }
        if heads >= 2 { lines.append(line(path(model, columns), .plain, columns)) }
        if heads >= 1 {
            let text = TextWidth.end(of: model.filter.escapingControls, in: columns - 9)
            lines.append(line("Filter: " + text, .plain, columns))
        }
        if heads >= 4 { lines.append(line(String(repeating: "─", count: columns), .faint, columns)) }
        let height = height(of: model, rows: rows)
        for index in 0..<height {
            let place = model.top + index
            if let item = model.items[place] {
                let isCurrent = place == model.cursor && model.focus == .list
                if place == model.cursor { cursor = (lines.count, 0) }
                lines.append(row(item, model.note(at: place), isCurrent, model, columns))
            } else {
                lines.append(index == 0 ? line(emptiness(model), .faint, columns) : [])
            }
        }
        if model.request.mode.choosesFolder {
            let isCurrent = model.focus == .name
            let text = TextWidth.end(of: model.name, in: columns - 7)
            if isCurrent { cursor = (lines.count, min(columns - 1, 6 + TextWidth.of(text))) }
            lines.append(line(TextWidth.fill("Name: " + text, columns), isCurrent ? .current : .plain, columns))
        }
        lines.append(line(foot(model), model.message == nil ? .faint : .strong, columns))
        return Screen(rows: Array(lines.prefix(rows)), cursor: cursor)
    }

    private static func line(_ text: String, _ style: Screen.Style, _ columns: Int) -> [Screen.Span] {
        [Screen.Span(column: 0, text: TextWidth.cut(text, to: columns), style: style)]
    }

    private static func title(_ model: PickerModel) -> String {
        let app = model.request.app.escapingControls
        let file = model.request.fileName.escapingControls
        return switch model.request.mode {
        case .import: "Choose a document to copy for \(app)"
        case .open: "Choose a document to open in \(app)"
        case .export: "Choose a folder for a copy of \(file)"
        case .move: "Choose a folder to move \(file) to"
        }
    }

    private static func path(_ model: PickerModel, _ columns: Int) -> String {
        let names = model.crumbs.map(\.name.escapingControls)
        return TextWidth.end(of: names.isEmpty ? "Places" : names.joined(separator: " › "), in: columns)
    }

    private static func emptiness(_ model: PickerModel) -> String {
        switch model.progress {
        case .loading(let count): count == 0 ? "Loading…" : "Loading… \(count) items so far"
        case .failed(let failure): failure.line.escapingControls
        case .done: model.filter.isEmpty ? "Nothing is here" : "No name has this"
        }
    }

    private static func foot(_ model: PickerModel) -> String {
        if model.isBusy { return "Working…  Esc gives up" }
        if let message = model.message { return message }
        var words: [String] = []
        switch model.progress {
        case .done: words.append("\(model.items.count) of \(model.items.all.count)")
        case .loading: words.append("loading")
        case .failed: words.append("failed; Ctrl-R tries again")
        }
        if model.request.mode.choosesFolder {
            words.append(model.focus == .name ? "Enter: put it here" : "Enter: go in   Tab: name")
        } else {
            words.append("Enter: choose or go in")
        }
        words.append("←: up   type: filter   Esc: cancel")
        return words.joined(separator: "   ")
    }

    /// The columns of an item, the less important left out where there is no room.
    private static func row(
        _ item: ListedEntry,
        _ note: String?,
        _ isCurrent: Bool,
        _ model: PickerModel,
        _ columns: Int
    ) -> [Screen.Span] {
        let entry = item.entry
        let isFolder = entry.kind == .folder
        let isUsable = isFolder && note == nil || entry.isSelectable && !model.request.mode.choosesFolder
        let style: Screen.Style =
            isCurrent ? (isUsable ? .current : .currentFaint) : isUsable ? (isFolder ? .strong : .plain) : .faint
        var details: [(text: String, width: Int)] = []
        if !model.crumbs.isEmpty {
            if columns >= 40 { details.append((state(entry), 12)) }
            if columns >= 26 { details.append((isFolder ? "" : Units.size(entry.size), 7)) }
            if columns >= 64 { details.append((" " + Units.date(entry.modificationTime), 17)) }
        }
        var column = columns - details.reduce(0) { $0 + $1.width }
        // The mark tells the current one where styles can't be seen.
        let end = (isFolder ? "/" : "") + (note.map { "   \($0.escapingControls)" } ?? "")
        let name = (isCurrent ? "> " : "  ") + item.shownName + end
        var spans = [Screen.Span(column: 0, text: TextWidth.fill(name, column), style: style)]
        for detail in details {
            // Each at its own column: terminals do not agree on the width of every character.
            let text = TextWidth.fill(detail.text, detail.width, left: detail.width == 7)
            spans.append(Screen.Span(column: column, text: text, style: style))
            column += detail.width
        }
        return spans
    }

    private static func state(_ entry: PickerEntry) -> String {
        if entry.kind == .folder { return "" }
        return switch entry.state {
        case .dataless: " not here"
        case .downloading: " downloading"
        case .local: " here"
        case .uploading: " uploading"
        case .error: " error"
        }
    }
}
