// What `labkit lab` adds to JupyterLab's page. Written for the browser as it is: nothing is compiled.
//
// A container of module federation, as JupyterLab expects of a prebuilt extension: JupyterLab hands its own modules
// to `init`, and asks `get` for the plugins.

(() => {
  const EVERY = 2000; // milliseconds between two looks at the lab
  let scope;

  /** One of JupyterLab's own modules. */
  async function shared(name) {
    const versions = Object.values(scope[name]);
    return (await versions[0].get())();
  }

  function inWords({ ranks, state, owner, since }) {
    if (state === 'none') return 'labkit: no ranks';
    const who = owner ? `, ${owner.replace(/\.ipynb$/, '')}` : '';
    const doing = { ready: 'ready', busy: 'a cell runs', gone: 'ended' }[state];
    return `labkit: ${ranks} ${ranks === 1 ? 'rank' : 'ranks'}, ${doing}${who}`;
  }

  async function plugin() {
    const { IStatusBar } = await shared('@jupyterlab/statusbar');
    const { INotebookTracker } = await shared('@jupyterlab/notebook');
    const { ICommandPalette, Notification, showDialog, Dialog } = await shared('@jupyterlab/apputils');
    const { IRenderMimeRegistry, imageRendererFactory } = await shared('@jupyterlab/rendermime');
    const { ServerConnection } = await shared('@jupyterlab/services');
    const { URLExt } = await shared('@jupyterlab/coreutils');
    const { Menu, Widget } = await shared('@lumino/widgets');

    /** Ask labkit's side of the server (labkit/commands/page/server.py). */
    async function ask(what, body = {}) {
      const settings = ServerConnection.makeSettings();
      const url = URLExt.join(settings.baseUrl, 'labkit', what);
      const asked = { method: 'POST', body: JSON.stringify(body) };
      const answer = await ServerConnection.makeRequest(url, asked, settings);
      if (!answer.ok) throw new ServerConnection.ResponseError(answer);
      return answer.json();
    }

    async function tellFailure(work) {
      try {
        return await work();
      } catch (error) {
        Notification.error(`labkit: ${error.message}`);
      }
    }

    /** Run a line in the kernel of the notebook in front, beside its cells. */
    async function runBeside(panel, code) {
      const kernel = panel?.sessionContext.session?.kernel;
      if (!kernel) throw new Error('open a notebook first');
      const reply = await kernel.requestExecute({ code, silent: true, store_history: false }).done;
      if (reply.content.status === 'error') throw new Error(reply.content.evalue.replace(/\n/g, '; '));
    }

    function addCommands(app, tracker, palette, look) {
      const { commands } = app;
      const panel = () => tracker.currentWidget;
      const add = (id, label, work) => {
        commands.addCommand(id, { label, execute: () => tellFailure(work).finally(look) });
        palette.addItem({ command: id, category: 'labkit' });
      };
      add('labkit:view', 'labkit: Show What Each Rank Does', async () => {
        if (!panel()) throw new Error('open a notebook first');
        await commands.execute('notebook:insert-cell-below');
        panel().content.activeCell.model.sharedModel.setSource('lab.view()');
        await commands.execute('notebook:run-cell');
      });
      add('labkit:restart', 'labkit: Restart the Ranks', () =>
        runBeside(panel(), "__import__('labkit.lab.session', fromlist=['_']).running('new ranks').restart()"));
      add('labkit:stop', 'labkit: Stop the Ranks', () => ask('stop'));
      add('labkit:reset', 'labkit: Put This Lesson Back', async () => {
        const lesson = panel()?.context.path;
        if (!lesson) throw new Error('open a lesson first');
        const sure = await showDialog({
          title: 'Put this lesson back?',
          body: `${lesson} is as it was installed again. What you made of it is kept beside it.`,
          buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Put it back' })],
        });
        if (!sure.button.accept) return;
        await panel().context.save();
        const { kept } = await ask('reset', { lesson });
        await panel().context.revert();
        Notification.success(`labkit: the lesson is as it was; yours is ${kept}`);
      });
    }

    /** The lab in the status bar: one button, whose menu has what can be done with it. */
    function addStatus(app, statusBar) {
      const button = document.createElement('button');
      button.className = 'labkit-status jp-StatusBar-TextItem';
      button.setAttribute('aria-haspopup', 'menu');
      button.title = 'The ranks that the notebooks of this JupyterLab share';
      const item = new Widget({ node: document.createElement('div') });
      item.node.append(button);
      const menu = new Menu({ commands: app.commands });
      button.onclick = () => {
        menu.clearItems();
        for (const command of ['view', 'restart', 'stop', 'reset']) menu.addItem({ command: `labkit:${command}` });
        const { left, top } = button.getBoundingClientRect();
        menu.open(left, top - 8, { verticalAlignment: 'bottom' });
      };
      statusBar.registerStatusItem('labkit:status', { item, align: 'left', rank: 1 });
      return async () => {
        try {
          const told = await ask('status');
          button.textContent = inWords(told);
          button.dataset.state = told.state;
          button.title = told.owner ? `${told.owner} has them since ${told.since}` : 'labkit.start(4) starts some';
        } catch {
          button.textContent = 'labkit: the server does not answer';
        }
      };
    }

    /** The front page is made anew whenever it comes to the front. */
    function renewFrontPage(app) {
      let before;
      const renew = async widget => {
        if (widget === before) return;
        before = widget;
        if (widget?.context?.path !== 'index.md' || widget.context.model.dirty) return;
        await ask('front');
        await widget.context.ready;
        await widget.context.revert();
      };
      app.shell.currentChanged.connect((_, change) => renew(change.newValue).catch(console.warn));
      app.restored.then(() => renew(app.shell.currentWidget)).catch(console.warn);
    }

    /** A picture in the colours that labkit stores beside it for a dark page (labkit/figures/picture.py). */
    function inTheDark(png, colours) {
      const bytes = atob(png), chunk = atob(colours), at = bytes.indexOf('PLTE') - 4;
      return btoa(bytes.slice(0, at) + chunk + bytes.slice(at + chunk.length));
    }

    /** What labkit stores with a picture: what it says to those who do not see it, its colours on a dark page. */
    function completePictures(rendermime) {
      const createRenderer = options => {
        const renderer = imageRendererFactory.createRenderer(options);
        const render = renderer.renderModel.bind(renderer);
        renderer.renderModel = async model => {
          await render(model);
          const image = renderer.node.querySelector('img');
          if (!image) return;
          const stored = model.metadata?.[options.mimeType], said = stored?.alt ?? model.data['text/plain'];
          if (said) image.alt = Array.isArray(said) ? said.join('') : said;
          if (!stored?.dark) return;
          const turned = inTheDark([model.data[options.mimeType]].flat().join(''), stored.dark);
          image.style.setProperty('--labkit-dark', `url(data:image/png;base64,${turned})`);
        };
        return renderer;
      };
      rendermime.addFactory({ ...imageRendererFactory, createRenderer }, 80);
    }

    /** The state of a running cell, as a page before this one has left it, says so. */
    function endWhatRan(panel) {
      for (const cell of panel.content.widgets) {
        const outputs = cell.model.outputs;
        for (let i = 0; i < (outputs?.length ?? 0); i++) {
          const output = outputs.get(i).toJSON();
          if (!output.metadata?.labkit_running) continue;
          const said = 'this cell ran when the page was reloaded: lab.last shows its result, once there is one';
          outputs.set(i, { ...output, data: { 'text/plain': said }, metadata: {} });
        }
      }
    }

    return {
      id: 'labkit:page',
      autoStart: true,
      requires: [IStatusBar, INotebookTracker, ICommandPalette, IRenderMimeRegistry],
      activate: (app, statusBar, tracker, palette, rendermime) => {
        const style = document.createElement('style');
        style.textContent = STYLE;
        document.head.append(style);
        completePictures(rendermime);
        const look = addStatus(app, statusBar);
        addCommands(app, tracker, palette, look);
        renewFrontPage(app);
        tracker.widgetAdded.connect((_, panel) => panel.context.ready.then(() => endWhatRan(panel)));
        const again = async () => {
          if (!document.hidden) await look();
          setTimeout(again, EVERY);
        };
        again();
      },
    };
  }

  const STYLE = `
.labkit-status { height: 100%; border: 0; background: none; font: inherit; color: inherit; cursor: pointer; }
.labkit-status:hover { background: var(--jp-layout-color3); }
.labkit-status:focus-visible { outline: 2px solid var(--jp-brand-color1); outline-offset: -2px; }
[data-jp-theme-light="false"] .jp-RenderedImage img { content: var(--labkit-dark, normal); }
`;

  const container = {
    init: given => { scope = given; },
    get: async () => {
      const made = await plugin();
      return () => ({ __esModule: true, default: made });
    },
  };
  (window._JUPYTERLAB ??= {}).labkit = container;
})();
