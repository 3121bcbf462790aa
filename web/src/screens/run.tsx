import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Run() {
  return <Page title="Run"><Empty title="This screen is not built yet" /></Page>;
}
