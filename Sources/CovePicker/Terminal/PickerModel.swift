internal import CoveCore

/// What the terminal's face shows and what keys do to it, without a terminal.
struct PickerModel: Sendable {
    /// What is to be done after a key.
    enum Action: Sendable, Equatable {
        case none
        /// A folder is to be listed; the one listed until now is left.
        case list([UInt8])
        /// The listing under way is to be given up: the list of roots is shown.
        case showRoots
        case choose(PickerSelection)
        /// The choice that is being carried out is to be given up.
        case giveUp
        case cancel
        /// Everything is to be drawn anew.
        case redraw
    }

    /// A folder on the way from a root.
    struct Crumb: Sendable, Equatable {
        var name: String
        var path: [UInt8]
    }

    /// What keys write into.
    enum Focus: Sendable { case list, name }

    /// The longest text that can be written.
    static let longestText = 255

    let request: PickerRequest
    let roots: [PickerRoot]
    /// From the root to the folder that is shown; empty for the list of roots.
    private(set) var crumbs: [Crumb] = []
    private(set) var items = FilteredEntries()
    private(set) var progress = FolderListing.Progress.done
    private(set) var cursor = 0
    /// The first item that is in view.
    private(set) var top = 0
    private(set) var focus = Focus.list
    /// The name that the file is to have.
    private(set) var name: String
    /// Something a person is told until the next key.
    private(set) var message: String?
    /// True while a choice is carried out.
    private(set) var isBusy = false
    /// How many items are in view.
    private(set) var height = 10
    /// The item to go to once the folder is listed: the one that was left.
    private var cameFrom: [UInt8]?

    init(_ request: PickerRequest, roots: [PickerRoot]) {
        self.request = request
        self.roots = roots
        name = request.fileName.escapingControls
        if roots.count == 1 {
            crumbs = [Crumb(name: roots[0].name, path: roots[0].path)]
            progress = .loading(0)
        } else {
            showRoots()
        }
    }

    /// The folder that is shown; nil for the list of roots.
    var folder: [UInt8]? { crumbs.last?.path }

    /// What is to be known of a place in the list of roots before a person goes there.
    func note(at index: Int) -> String? {
        crumbs.isEmpty && items.places.indices.contains(index) ? roots[items.places[index]].note : nil
    }

    /// The filter's text.
    var filter: String { items.filter }

    // MARK: What comes from elsewhere

    /// So many items fit on the screen.
    mutating func set(height: Int) {
        self.height = max(1, height)
        scroll()
    }

    /// The listing of the folder has come so far.
    mutating func take(_ listing: FolderListing) {
        guard listing.folder == folder, progress != .done else { return }
        progress = listing.progress
        guard progress == .done else { return }
        items = FilteredEntries(listing.entries, filter: filter)
        cursor = cameFrom.flatMap { items.index(ofName: $0) } ?? 0
        cameFrom = nil
        scroll()
    }

    /// A choice was not carried out.
    mutating func fail(_ failure: PickerFailure) {
        isBusy = false
        message = failure == .interrupted ? "Given up; nothing has changed" : failure.line.escapingControls
    }

    // MARK: Keys

    /// Does what a key asks for.
    mutating func press(_ key: Key) -> Action {
        if isBusy { return key == .escape ? .giveUp : .none }
        message = nil
        if key == .control("l") { return .redraw }
        return focus == .name ? pressInName(key) : pressInList(key)
    }

    private mutating func pressInName(_ key: Key) -> Action {
        switch key {
        case .text(let text): if name.count < Self.longestText { name += text }
        case .backspace: _ = name.popLast()
        case .control("u"): name = ""
        case .enter: return chooseFolder()
        case .tab, .escape, .up, .down: focus = .list
        default: break
        }
        return .none
    }

    private mutating func pressInList(_ key: Key) -> Action {
        switch key {
        case .up, .control("p"): move(to: cursor - 1)
        case .down, .control("n"): move(to: cursor + 1)
        case .pageUp: move(to: cursor - height)
        case .pageDown: move(to: cursor + height)
        case .home: move(to: 0)
        case .end: move(to: items.count - 1)
        case .enter: return enter()
        case .right: if items[cursor]?.entry.kind == .folder { return enter() }
        case .left: return goUp()
        case .tab: return tab()
        case .text(let text): set(filter: filter.count < Self.longestText ? filter + text : filter)
        case .backspace:
            if filter.isEmpty { return goUp() }
            set(filter: String(filter.dropLast()))
        case .control("u"): set(filter: "")
        case .escape:
            if filter.isEmpty { return .cancel }
            set(filter: "")
        case .control("r"): if let folder { return show(folder) }
        default: break
        }
        return .none
    }

    private mutating func move(to index: Int) {
        cursor = max(0, min(index, items.count - 1))
        scroll()
    }

    private mutating func set(filter: String) {
        let current = items[cursor]?.entry.name
        items.set(filter: filter)
        cursor = current.flatMap { items.index(ofName: $0) } ?? 0
        scroll()
    }

    private mutating func scroll() {
        cursor = max(0, min(cursor, items.count - 1))
        if cursor < top { top = cursor }
        if cursor >= top + height { top = cursor - height + 1 }
        top = max(0, min(top, items.count - height))
    }

    private mutating func enter() -> Action {
        guard let item = items[cursor] else { return .none }
        if crumbs.isEmpty {
            let root = roots[items.places[cursor]]
            crumbs = [Crumb(name: root.name, path: root.path)]
            return show(root.path)
        }
        guard let folder else { return .none }
        let path = folder.appending(name: item.entry.name)
        if item.entry.kind == .folder {
            crumbs.append(Crumb(name: item.shownName, path: path))
            return show(path)
        }
        if request.mode.choosesFolder {
            message = "A folder is chosen here: Tab goes to the name"
            return .none
        }
        guard item.entry.isSelectable else {
            message = "\(request.app) can't use items of this type"
            return .none
        }
        isBusy = true
        return .choose(PickerSelection(path: path))
    }

    private mutating func tab() -> Action {
        if request.mode.choosesFolder {
            guard folder != nil else {
                message = "Go into a folder first"
                return .none
            }
            focus = .name
            return .none
        }
        guard let folder, let item = items[cursor], item.entry.kind == .folder, item.entry.isSelectable else {
            return .none
        }
        isBusy = true
        return .choose(PickerSelection(path: folder.appending(name: item.entry.name)))
    }

    private mutating func chooseFolder() -> Action {
        guard let folder else { return .none }
        let isOwn = name == request.fileName.escapingControls
        if !isOwn, let problem = FileName.problem(with: Array(name.utf8)) {
            message = "That is \(problem): write another name"
            return .none
        }
        isBusy = true
        return .choose(PickerSelection(path: folder, name: isOwn ? nil : Array(name.utf8)))
    }

    private mutating func goUp() -> Action {
        guard let left = crumbs.last, crumbs.count > 1 || roots.count > 1 else { return .none }
        crumbs.removeLast()
        guard let folder else {
            showRoots()
            move(to: roots.firstIndex { $0.path == left.path } ?? 0)
            return .showRoots
        }
        let action = show(folder)
        cameFrom = left.path.split(separator: UInt8(ascii: "/")).last.map(Array.init)
        return action
    }

    private mutating func show(_ folder: [UInt8]) -> Action {
        items = FilteredEntries()
        (cursor, top, progress, cameFrom) = (0, 0, .loading(0), nil)
        return .list(folder)
    }

    private mutating func showRoots() {
        progress = .done
        items = FilteredEntries(roots.map { ListedEntry(root: $0) })
        (cursor, top) = (0, 0)
    }
}

extension ListedEntry {
    /// A place, as an item of the list of places.
    fileprivate init(root: PickerRoot) {
        self.init(
            PickerEntry(
                name: Array(root.name.utf8),
                kind: .folder,
                size: 0,
                modificationTime: 0,
                type: "inode/directory",
                state: .local,
                isSelectable: false
            )
        )
    }
}

extension [UInt8] {
    /// The path of a name in this directory.
    func appending(name: [UInt8]) -> [UInt8] { self == [0x2F] ? self + name : self + [0x2F] + name }
}
